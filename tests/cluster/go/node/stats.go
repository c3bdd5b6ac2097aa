package main

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (r *runtime) ContainerStats(_ context.Context, id string) (*cri.ContainerStats, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.containers[id]
	if !ok {
		return nil, notFound("container", id)
	}
	return r.statsOf(found), nil
}

func (r *runtime) ListContainerStats(
	_ context.Context, filter *cri.ContainerStatsFilter,
) ([]*cri.ContainerStats, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var listed []*cri.ContainerStats
	for _, found := range r.containers {
		if found.isRunning() && !differs(filter.GetId(), found.id) &&
			!differs(filter.GetPodSandboxId(), found.sandbox.id) {
			listed = append(listed, r.statsOf(found))
		}
	}
	return listed, nil
}

func (r *runtime) PodSandboxStats(_ context.Context, id string) (*cri.PodSandboxStats, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.sandboxes[id]
	if !ok {
		return nil, notFound("sandbox", id)
	}
	return r.statsOfAll()[found], nil
}

func (r *runtime) ListPodSandboxStats(
	_ context.Context, filter *cri.PodSandboxStatsFilter,
) ([]*cri.PodSandboxStats, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var listed []*cri.PodSandboxStats
	for found, stats := range r.statsOfAll() {
		if !differs(filter.GetId(), found.id) && found.state == cri.PodSandboxState_SANDBOX_READY {
			listed = append(listed, stats)
		}
	}
	return listed, nil
}

// statsOfAll adds up containers by their pods.
func (r *runtime) statsOfAll() map[*sandbox]*cri.PodSandboxStats {
	now := time.Now().UnixNano()
	all := map[*sandbox]*cri.PodSandboxStats{}
	for _, found := range r.sandboxes {
		all[found] = &cri.PodSandboxStats{
			Attributes: &cri.PodSandboxAttributes{
				Id:          found.id,
				Metadata:    found.config.GetMetadata(),
				Labels:      found.config.GetLabels(),
				Annotations: found.config.GetAnnotations(),
			},
			Linux: &cri.LinuxPodSandboxStats{
				Cpu:     cpuUsage(now, 0, 0),
				Memory:  memoryUsage(now, 0),
				Network: &cri.NetworkUsage{Timestamp: now, DefaultInterface: silence()},
				Process: &cri.ProcessUsage{Timestamp: now, ProcessCount: &cri.UInt64Value{Value: 1}},
			},
		}
	}
	for _, found := range r.containers {
		if !found.isRunning() {
			continue
		}
		one, sum := r.statsOf(found), all[found.sandbox].Linux
		sum.Containers = append(sum.Containers, one)
		sum.Cpu.Timestamp = one.Cpu.Timestamp
		sum.Cpu.UsageCoreNanoSeconds.Value += one.Cpu.UsageCoreNanoSeconds.Value
		sum.Cpu.UsageNanoCores.Value += one.Cpu.UsageNanoCores.Value
		sum.Memory.Timestamp = one.Memory.Timestamp
		sum.Memory.UsageBytes.Value += one.Memory.UsageBytes.Value
		sum.Memory.WorkingSetBytes.Value += one.Memory.WorkingSetBytes.Value
	}
	return all
}

func (r *runtime) statsOf(c *container) *cri.ContainerStats {
	r.count(c, r.podOf(c), time.Now())
	at := c.usage.counted.UnixNano()
	return &cri.ContainerStats{
		Attributes: &cri.ContainerAttributes{
			Id:          c.id,
			Metadata:    c.config.GetMetadata(),
			Labels:      c.config.GetLabels(),
			Annotations: c.config.GetAnnotations(),
		},
		Cpu:    cpuUsage(at, c.usage.nanoseconds, c.usage.cores),
		Memory: memoryUsage(at, c.usage.memory),
		WritableLayer: &cri.FilesystemUsage{
			Timestamp: at,
			UsedBytes: &cri.UInt64Value{}, InodesUsed: &cri.UInt64Value{},
			FsId: &cri.FilesystemIdentifier{Mountpoint: "/"},
		},
	}
}

func silence() *cri.NetworkInterfaceUsage {
	return &cri.NetworkInterfaceUsage{
		Name: "lo", RxBytes: &cri.UInt64Value{}, RxErrors: &cri.UInt64Value{},
		TxBytes: &cri.UInt64Value{}, TxErrors: &cri.UInt64Value{},
	}
}

func cpuUsage(at int64, nanoseconds uint64, cores float64) *cri.CpuUsage {
	return &cri.CpuUsage{
		Timestamp:            at,
		UsageCoreNanoSeconds: &cri.UInt64Value{Value: nanoseconds},
		UsageNanoCores:       &cri.UInt64Value{Value: uint64(cores * 1e9)},
	}
}

func memoryUsage(at int64, bytes uint64) *cri.MemoryUsage {
	return &cri.MemoryUsage{
		Timestamp:       at,
		UsageBytes:      &cri.UInt64Value{Value: bytes},
		WorkingSetBytes: &cri.UInt64Value{Value: bytes},
		RssBytes:        &cri.UInt64Value{Value: bytes},
		PageFaults:      &cri.UInt64Value{},
		MajorPageFaults: &cri.UInt64Value{},
	}
}
