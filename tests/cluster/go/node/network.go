package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

const loopback = "127.0.0.1"

// network gives each pod an address of its own on loopback, so that probes need nothing more.
// It is used under the lock of the runtime.
type network struct {
	prefix int
	next   int
	free   []string
}

func newNetwork(prefix int) *network { return &network{prefix: prefix, next: 1} }

func (n *network) take() string {
	// The oldest first: an address that was just given back may still be probed.
	if len(n.free) > 256 {
		address := n.free[0]
		n.free = n.free[1:]
		return address
	}
	n.next++
	return fmt.Sprintf("127.%d.%d.%d", n.prefix, n.next/250, n.next%250+1)
}

func (n *network) give(address string) { n.free = append(n.free, address) }

// door is a port on which a program says that it is well.
type door struct{ server *http.Server }

func (d door) shut() { _ = d.server.Close() }

// open listens on the ports that a container's probes ask.
func (n *network) open(address string, pod *v1.Pod, container string) []door {
	var doors []door
	for port := range probed(pod, container) {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			klog.ErrorS(err, "A probe will fail")
			continue
		}
		server := &http.Server{Handler: http.HandlerFunc(answer), ReadTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
		doors = append(doors, door{server})
	}
	return doors
}

func answer(response http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(response, "ok") }

func probed(pod *v1.Pod, name string) map[int]bool {
	ports := map[int]bool{}
	if pod == nil {
		return ports
	}
	for _, each := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if each.Name != name {
			continue
		}
		for _, probe := range []*v1.Probe{each.StartupProbe, each.ReadinessProbe, each.LivenessProbe} {
			switch {
			case probe == nil:
			case probe.HTTPGet != nil:
				ports[probe.HTTPGet.Port.IntValue()] = true
			case probe.TCPSocket != nil:
				ports[probe.TCPSocket.Port.IntValue()] = true
			}
		}
	}
	return ports
}
