package main

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// unsupported is what needs real processes, or what a kubelet can do without.
type unsupported struct{}

var errUnsupported = status.Error(codes.Unimplemented, "there are no processes here")

func (unsupported) Exec(context.Context, *cri.ExecRequest) (*cri.ExecResponse, error) {
	return nil, errUnsupported
}

func (unsupported) Attach(context.Context, *cri.AttachRequest) (*cri.AttachResponse, error) {
	return nil, errUnsupported
}

func (unsupported) PortForward(
	context.Context, *cri.PortForwardRequest,
) (*cri.PortForwardResponse, error) {
	return nil, errUnsupported
}

func (unsupported) CheckpointContainer(context.Context, *cri.CheckpointContainerRequest) error {
	return errUnsupported
}

func (unsupported) GetContainerEvents(
	context.Context, chan *cri.ContainerEventResponse, func(cri.RuntimeService_GetContainerEventsClient),
) error {
	return errUnsupported
}

func (unsupported) ListMetricDescriptors(context.Context) ([]*cri.MetricDescriptor, error) {
	return nil, errUnsupported
}

func (unsupported) ListPodSandboxMetrics(context.Context) ([]*cri.PodSandboxMetrics, error) {
	return nil, errUnsupported
}

// ReopenContainerLog has nothing to do: nothing is written.
func (unsupported) ReopenContainerLog(context.Context, string) error { return nil }
