package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"
)

const (
	exitKilled     = 137
	exitTerminated = 143

	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonMemory    = "OOMKilled"
)

type container struct {
	id        string
	sandbox   *sandbox
	config    *cri.ContainerConfig
	resources *cri.LinuxContainerResources
	state     cri.ContainerState
	created   time.Time
	started   time.Time
	finished  time.Time
	exitCode  int32
	reason    string
	usage     usage
	doors     []door // what listens for probes
}

func (c *container) name() string { return c.config.GetMetadata().GetName() }

func (c *container) logPath() string {
	return filepath.Join(c.sandbox.config.GetLogDirectory(), c.config.GetLogPath())
}

func (c *container) isRunning() bool { return c.state == cri.ContainerState_CONTAINER_RUNNING }

func (c *container) end(code int32, reason string) {
	if !c.isRunning() {
		return
	}
	c.state, c.finished = cri.ContainerState_CONTAINER_EXITED, time.Now()
	c.exitCode, c.reason = code, reason
	for _, door := range c.doors {
		door.shut()
	}
	c.doors = nil
}

func (r *runtime) CreateContainer(
	_ context.Context, sandboxID string, config *cri.ContainerConfig, _ *cri.PodSandboxConfig,
) (string, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	home, ok := r.sandboxes[sandboxID]
	if !ok {
		return "", notFound("sandbox", sandboxID)
	}
	resources := config.GetLinux().GetResources()
	if resources == nil {
		resources = &cri.LinuxContainerResources{}
	}
	made := &container{
		id: newID(), sandbox: home, config: config, resources: resources,
		state: cri.ContainerState_CONTAINER_CREATED, created: time.Now(),
	}
	r.containers[made.id] = made
	return made.id, nil
}

func (r *runtime) StartContainer(_ context.Context, id string) error {
	time.Sleep(startUp)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.containers[id]
	if !ok {
		return notFound("container", id)
	}
	// Nothing is written, but the kubelet looks after logs, and people ask for them.
	if err := os.WriteFile(found.logPath(), nil, 0o600); err != nil {
		return err
	}
	found.started = time.Now().Truncate(time.Millisecond)
	found.state = cri.ContainerState_CONTAINER_RUNNING
	found.usage = usage{counted: found.started}
	pod := r.podOf(found)
	if isInit(pod, found.name()) {
		found.end(0, reasonCompleted)
		return nil
	}
	r.count(found, pod, found.started)
	return nil
}

func (r *runtime) podOf(found *container) *v1.Pod {
	metadata := found.sandbox.config.GetMetadata()
	return r.pods.get(metadata.GetNamespace(), metadata.GetName())
}

// isInit tells containers that end by themselves from sidecars.
func isInit(pod *v1.Pod, name string) bool {
	if pod == nil {
		return false
	}
	for _, each := range pod.Spec.InitContainers {
		if each.Name == name {
			return each.RestartPolicy == nil || *each.RestartPolicy != v1.ContainerRestartPolicyAlways
		}
	}
	return false
}

func (r *runtime) StopContainer(_ context.Context, id string, _ int64) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if found, ok := r.containers[id]; ok {
		found.end(exitTerminated, reasonError)
	}
	return nil
}

func (r *runtime) RemoveContainer(_ context.Context, id string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if found, ok := r.containers[id]; ok {
		found.end(exitKilled, reasonError)
		delete(r.containers, id)
	}
	return nil
}

func (r *runtime) ListContainers(
	_ context.Context, filter *cri.ContainerFilter,
) ([]*cri.Container, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var listed []*cri.Container
	for _, found := range r.containers {
		if wanted := filter.GetState(); wanted != nil && wanted.State != found.state {
			continue
		}
		labels := found.config.GetLabels()
		if differs(filter.GetId(), found.id) ||
			differs(filter.GetPodSandboxId(), found.sandbox.id) ||
			!contains(labels, filter.GetLabelSelector()) {
			continue
		}
		listed = append(listed, &cri.Container{
			Id:           found.id,
			PodSandboxId: found.sandbox.id,
			Metadata:     found.config.GetMetadata(),
			Image:        found.config.GetImage(),
			ImageRef:     found.config.GetImage().GetImage(),
			State:        found.state,
			CreatedAt:    found.created.UnixNano(),
			Labels:       labels,
			Annotations:  found.config.GetAnnotations(),
		})
	}
	return listed, nil
}

func (r *runtime) ContainerStatus(
	_ context.Context, id string, _ bool,
) (*cri.ContainerStatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.containers[id]
	if !ok {
		return nil, notFound("container", id)
	}
	status := &cri.ContainerStatus{
		Id:          found.id,
		Metadata:    found.config.GetMetadata(),
		State:       found.state,
		CreatedAt:   found.created.UnixNano(),
		ExitCode:    found.exitCode,
		Image:       found.config.GetImage(),
		ImageRef:    found.config.GetImage().GetImage(),
		Reason:      found.reason,
		Labels:      found.config.GetLabels(),
		Annotations: found.config.GetAnnotations(),
		LogPath:     found.logPath(),
		Mounts:      found.config.GetMounts(),
		Resources:   &cri.ContainerResources{Linux: copied(found.resources)},
	}
	if !found.started.IsZero() {
		status.StartedAt = found.started.UnixNano()
	}
	if !found.finished.IsZero() {
		status.FinishedAt = found.finished.UnixNano()
	}
	return &cri.ContainerStatusResponse{Status: status}, nil
}

func copied(from *cri.LinuxContainerResources) *cri.LinuxContainerResources {
	return &cri.LinuxContainerResources{
		CpuPeriod:          from.CpuPeriod,
		CpuQuota:           from.CpuQuota,
		CpuShares:          from.CpuShares,
		MemoryLimitInBytes: from.MemoryLimitInBytes,
		OomScoreAdj:        from.OomScoreAdj,
	}
}

// UpdateContainerResources applies what is told; zero means that something stays as it is.
func (r *runtime) UpdateContainerResources(
	_ context.Context, id string, wanted *cri.ContainerResources,
) error {
	r.mutex.Lock()
	found, ok := r.containers[id]
	if !ok {
		r.mutex.Unlock()
		return notFound("container", id)
	}
	refusal, delay := oddity(r.podOf(found))
	r.mutex.Unlock()
	if refusal != "" {
		return errors.New(refusal)
	}
	time.Sleep(delay)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.count(found, r.podOf(found), time.Now())
	now, told := copied(found.resources), wanted.GetLinux()
	if told.GetCpuPeriod() != 0 {
		now.CpuPeriod = told.GetCpuPeriod()
	}
	if told.GetCpuQuota() != 0 {
		now.CpuQuota = told.GetCpuQuota()
	}
	if told.GetCpuShares() != 0 {
		now.CpuShares = told.GetCpuShares()
	}
	if told.GetMemoryLimitInBytes() != 0 {
		now.MemoryLimitInBytes = told.GetMemoryLimitInBytes()
	}
	found.resources = now
	return nil
}

// ExecSync answers probes: a program that is still starting is not well.
func (r *runtime) ExecSync(
	_ context.Context, id string, command []string, _ time.Duration,
) ([]byte, []byte, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.containers[id]
	if !ok {
		return nil, nil, notFound("container", id)
	}
	if !found.isRunning() || !found.usage.isUseful {
		err := fmt.Errorf("%v: still starting", command)
		return nil, []byte("still starting"), utilexec.CodeExitError{Err: err, Code: 1}
	}
	return nil, nil, nil
}
