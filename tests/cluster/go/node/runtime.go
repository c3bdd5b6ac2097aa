package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	startUp = 50 * time.Millisecond // of a sandbox, and of each container
	name    = "in-memory"
)

// runtime is a container runtime whose containers are entries of a map. It is honest: what it was
// told to apply is what it tells, and what is not there is not found.
type runtime struct {
	unsupported
	pods    *watchedPods
	network *network

	mutex      sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
}

var _ internalapi.RuntimeService = (*runtime)(nil)

func newRuntime(pods *watchedPods, network *network) *runtime {
	return &runtime{
		pods:       pods,
		network:    network,
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
	}
}

type sandbox struct {
	id      string
	config  *cri.PodSandboxConfig
	state   cri.PodSandboxState
	created time.Time
	address string
}

func (s *sandbox) uid() types.UID { return types.UID(s.config.GetMetadata().GetUid()) }

func newID() string {
	bytes := make([]byte, 32)
	_, _ = rand.Read(bytes) // never fails
	return hex.EncodeToString(bytes)
}

func notFound(what, id string) error { return status.Errorf(codes.NotFound, "no %s %s", what, id) }

func (r *runtime) Version(context.Context, string) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{
		Version: "0.1.0", RuntimeName: name, RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1",
	}, nil
}

func (r *runtime) Status(context.Context, bool) (*cri.StatusResponse, error) {
	ready := []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: ready}}, nil
}

func (r *runtime) RunPodSandbox(
	_ context.Context, config *cri.PodSandboxConfig, _ string,
) (string, error) {
	time.Sleep(startUp)
	// Before its containers start, the pod must be known here: it tells what they do.
	r.pods.wait(config.GetMetadata().GetNamespace(), config.GetMetadata().GetName())
	r.mutex.Lock()
	defer r.mutex.Unlock()
	made := &sandbox{
		id: newID(), config: config, created: time.Now(), address: r.network.take(),
	}
	r.sandboxes[made.id] = made
	return made.id, nil
}

func (r *runtime) StopPodSandbox(_ context.Context, id string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.sandboxes[id]
	if !ok || found.state == cri.PodSandboxState_SANDBOX_NOTREADY {
		return nil
	}
	for _, each := range r.containers {
		if each.sandbox == found {
			each.end(exitTerminated, reasonError)
		}
	}
	found.state = cri.PodSandboxState_SANDBOX_NOTREADY
	r.network.give(found.address)
	return nil
}

func (r *runtime) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.StopPodSandbox(ctx, id); err != nil {
		return err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for key, each := range r.containers {
		if each.sandbox.id == id {
			delete(r.containers, key)
		}
	}
	delete(r.sandboxes, id)
	return nil
}

func (r *runtime) PodSandboxStatus(
	_ context.Context, id string, _ bool,
) (*cri.PodSandboxStatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.sandboxes[id]
	if !ok {
		return nil, notFound("sandbox", id)
	}
	// Without the options it was made with, the kubelet makes it anew, again and again.
	namespaces := found.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id:          found.id,
		Metadata:    found.config.GetMetadata(),
		State:       found.state,
		CreatedAt:   found.created.UnixNano(),
		Network:     &cri.PodSandboxNetworkStatus{Ip: found.address},
		Linux:       &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: namespaces}},
		Labels:      found.config.GetLabels(),
		Annotations: found.config.GetAnnotations(),
	}}, nil
}

func (r *runtime) ListPodSandbox(
	_ context.Context, filter *cri.PodSandboxFilter,
) ([]*cri.PodSandbox, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var listed []*cri.PodSandbox
	for _, found := range r.sandboxes {
		if wanted := filter.GetState(); wanted != nil && wanted.State != found.state {
			continue
		}
		labels := found.config.GetLabels()
		if differs(filter.GetId(), found.id) || !contains(labels, filter.GetLabelSelector()) {
			continue
		}
		listed = append(listed, &cri.PodSandbox{
			Id:          found.id,
			Metadata:    found.config.GetMetadata(),
			State:       found.state,
			CreatedAt:   found.created.UnixNano(),
			Labels:      labels,
			Annotations: found.config.GetAnnotations(),
		})
	}
	return listed, nil
}

func differs(wanted, found string) bool { return wanted != "" && wanted != found }

func contains(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func (r *runtime) UpdatePodSandboxResources(
	context.Context, *cri.UpdatePodSandboxResourcesRequest,
) (*cri.UpdatePodSandboxResourcesResponse, error) {
	return &cri.UpdatePodSandboxResourcesResponse{}, nil
}

func (r *runtime) UpdateRuntimeConfig(context.Context, *cri.RuntimeConfig) error { return nil }

func (r *runtime) RuntimeConfig(context.Context) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{
		Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS},
	}, nil
}

func (r *runtime) Close(context.Context) error { return nil }
