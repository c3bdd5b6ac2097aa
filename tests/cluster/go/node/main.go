// Command node is a Kubernetes node without containers: the real kubelet over a runtime that keeps
// its containers in memory. It resizes, probes, restarts and evicts as any kubelet does.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"syscall"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubemark"
)

const (
	clientQPS   = 200
	clientBurst = 400
	// What a real kubelet has; kubemark's ten seconds would make retries look faster than they are.
	syncFrequency = time.Minute
)

type settings struct {
	kubeconfig string
	name       string
	folder     string
	network    int
	port       int
	metrics    int
	maxPods    int
	cpu        string
	memory     string
}

func main() {
	var told settings
	flag.StringVar(&told.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flag.StringVar(&told.name, "name", "node-1", "name of the node")
	flag.StringVar(&told.folder, "folder", "", "where everything is kept")
	flag.IntVar(&told.network, "network", 1, "pods get addresses 127.NETWORK.0.0/16")
	flag.IntVar(&told.port, "port", 10250, "port of the kubelet")
	flag.IntVar(&told.metrics, "metrics-port", 0, "port of cadvisor's metrics; 0 for none")
	flag.IntVar(&told.maxPods, "max-pods", 500, "most pods at a time")
	flag.StringVar(&told.cpu, "cpu", "8", "cores")
	flag.StringVar(&told.memory, "memory", "32Gi", "memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, told settings) error {
	size, err := sizeOf(told.cpu, told.memory)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", told.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := watchPods(ctx, client, told.name)
	machine := &machine{name: told.name, size: size}
	runtime := newRuntime(pods, newNetwork(told.network))
	machine.used = runtime.memoryUsed
	hollow, err := newKubelet(ctx, told, config, client, machine, runtime)
	if err != nil {
		return err
	}
	go runtime.housekeep(ctx)
	if told.metrics != 0 {
		go serveMetrics(told.metrics, runtime)
	}
	go hollow.Run(ctx)
	<-ctx.Done()
	return nil
}

// newKubelet takes kubemark's kubelet and gives back what kubemark leaves out: probes, events,
// resizes, usage.
func newKubelet(
	ctx context.Context,
	told settings,
	config *rest.Config,
	client *clientset.Clientset,
	machine *machine,
	runtime *runtime,
) (*kubemark.HollowKubelet, error) {
	if err := utilfeature.DefaultMutableFeatureGate.Set("PodAndContainerStatsFromCRI=true"); err != nil {
		return nil, err
	}
	flags, kubeletSettings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName:    told.name,
		KubeletPort: told.port,
		MaxPods:     told.maxPods,
		NodeLabels:  map[string]string{},
	})
	if err := configure(flags, kubeletSettings, told); err != nil {
		return nil, err
	}
	heartbeats, err := clientset.NewForConfig(rest.AddUserAgent(config, "heartbeat"))
	if err != nil {
		return nil, err
	}
	manager := newContainerManager(machine.size, runtime.memoryUsedBy)
	hollow := kubemark.NewHollowKubelet(
		flags, kubeletSettings, client, heartbeats, machine, images{}, runtime, manager)
	tls, err := kubeletapp.InitializeTLS(ctx, flags, kubeletSettings)
	if err != nil {
		return nil, err
	}
	hollow.KubeletDeps.TLSOptions = tls
	hollow.KubeletDeps.ProbeManager = nil // the kubelet makes a real one
	hollow.KubeletDeps.OSInterface = ownFiles{}
	hollow.KubeletDeps.EventClient = client.CoreV1()
	if messages, err := os.Open("/dev/kmsg"); err == nil {
		_ = messages.Close()
		hollow.KubeletDeps.Recorder = nil // the kubelet makes a real one, which reads kernel messages
	} else {
		klog.InfoS("Events of the kubelet are not told, for /dev/kmsg cannot be read", "err", err)
	}
	hollow.KubeletDeps.Options = append(hollow.KubeletDeps.Options, allowLoopback)
	return hollow, nil
}

func configure(
	flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration, told settings,
) error {
	// Kubemark has made folders under /tmp; ours go when the cluster does.
	if err := os.RemoveAll(flags.RootDirectory); err != nil {
		return err
	}
	flags.RootDirectory = filepath.Join(told.folder, told.name)
	flags.CertDirectory = filepath.Join(flags.RootDirectory, "certificates")
	config.StaticPodPath = filepath.Join(flags.RootDirectory, "static-pods")
	config.PodLogsDir = filepath.Join(flags.RootDirectory, "pod-logs")
	kubelet.ContainerLogsDir = filepath.Join(flags.RootDirectory, "container-logs")
	for _, folder := range []string{config.StaticPodPath, config.PodLogsDir} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	flags.NodeIP = loopback
	config.Address = loopback
	config.ReadOnlyPort = 0
	config.SyncFrequency.Duration = syncFrequency
	// Pods go to nodes of any age at once, so the kubelet must not dawdle behind a full queue.
	config.EventRecordQPS, config.EventBurst = clientQPS, clientBurst
	return nil
}

// ownFiles are a machine's without links in /var/log/containers, which all kubelets of the machine
// would share: each takes those of the others for dead, and only root may write there.
type ownFiles struct{ kubecontainer.RealOS }

func (ownFiles) Symlink(string, string) error { return nil }

func (o ownFiles) Glob(pattern string) ([]string, error) {
	if filepath.Dir(pattern) == kubelet.DefaultContainerLogsDir {
		return nil, nil
	}
	return o.RealOS.Glob(pattern)
}

// allowLoopback replaces the private check that refuses to name loopback as a node's address.
func allowLoopback(k *kubelet.Kubelet) {
	field := reflect.ValueOf(k).Elem().FieldByName("nodeIPValidator")
	if !field.IsValid() {
		panic("this kubelet checks its address in another way")
	}
	check := (*func(net.IP) error)(unsafe.Pointer(field.UnsafeAddr()))
	*check = func(net.IP) error { return nil }
}

type size struct {
	cpu    resource.Quantity
	memory resource.Quantity
}

func sizeOf(cpu, memory string) (size, error) {
	cores, err := resource.ParseQuantity(cpu)
	if err != nil {
		return size{}, fmt.Errorf("--cpu %s: %w", cpu, err)
	}
	bytes, err := resource.ParseQuantity(memory)
	if err != nil {
		return size{}, fmt.Errorf("--memory %s: %w", memory, err)
	}
	return size{cores, bytes}, nil
}
