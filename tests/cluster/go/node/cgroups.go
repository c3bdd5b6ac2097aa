package main

import (
	"math"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

const cpuPeriod = 100_000 // microseconds

// containerManager is kubemark's, with cgroups of pods: without them a resize never ends.
type containerManager struct {
	cm.ContainerManager
	size size
	pods *podCgroups
}

var _ cm.ContainerManager = (*containerManager)(nil)

func newContainerManager(size size, used func(types.UID) uint64) *containerManager {
	pods := &podCgroups{known: map[types.UID]*cm.ResourceConfig{}, used: used}
	return &containerManager{cm.NewStubContainerManager(), size, pods}
}

func (m *containerManager) NewPodContainerManager() cm.PodContainerManager { return m.pods }

// GetPodCgroupRoot names the only cgroup that the machine knows: see machine.
func (m *containerManager) GetPodCgroupRoot() string { return rootCgroup }

// GetNodeAllocatableReservation takes away what a whole number of cores is too much.
func (m *containerManager) GetNodeAllocatableReservation() v1.ResourceList {
	milli := m.size.cpu.MilliValue()
	whole := int64(math.Ceil(float64(milli)/1000)) * 1000
	if whole == milli {
		return nil
	}
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(whole-milli, resource.DecimalSI)}
}

// podCgroups remembers what would stand in the cgroups of pods.
type podCgroups struct {
	mutex sync.Mutex
	known map[types.UID]*cm.ResourceConfig
	used  func(types.UID) uint64
}

var _ cm.PodContainerManager = (*podCgroups)(nil)

func (p *podCgroups) EnsureExists(_ klog.Logger, pod *v1.Pod) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if _, ok := p.known[pod.UID]; !ok {
		p.known[pod.UID] = cm.ResourceConfigForPod(
			pod, true, cpuPeriod, false, kubeletconfig.NoneMemoryReservationPolicy)
	}
	return nil
}

func (p *podCgroups) Exists(pod *v1.Pod) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	_, ok := p.known[pod.UID]
	return ok
}

// GetPodCgroupConfig tells what is set; where there is no limit a cgroup says -1.
func (p *podCgroups) GetPodCgroupConfig(pod *v1.Pod, _ v1.ResourceName) (*cm.ResourceConfig, error) {
	if err := p.EnsureExists(klog.Background(), pod); err != nil {
		return nil, err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	unlimited, period := int64(-1), uint64(cpuPeriod)
	found := &cm.ResourceConfig{CPUQuota: &unlimited, CPUPeriod: &period, Memory: &unlimited}
	merge(found, p.known[pod.UID])
	return found, nil
}

func (p *podCgroups) SetPodCgroupConfig(_ klog.Logger, pod *v1.Pod, wanted *cm.ResourceConfig) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	found := &cm.ResourceConfig{}
	if before := p.known[pod.UID]; before != nil {
		merge(found, before)
	}
	merge(found, wanted)
	p.known[pod.UID] = found
	return nil
}

func merge(into, from *cm.ResourceConfig) {
	if from.CPUShares != nil {
		into.CPUShares = from.CPUShares
	}
	if from.CPUQuota != nil {
		into.CPUQuota = from.CPUQuota
	}
	if from.CPUPeriod != nil {
		into.CPUPeriod = from.CPUPeriod
	}
	if from.Memory != nil {
		into.Memory = from.Memory
	}
}

func (p *podCgroups) GetPodContainerName(pod *v1.Pod) (cm.CgroupName, string) {
	return cm.CgroupName{string(pod.UID)}, "/" + string(pod.UID)
}

func (p *podCgroups) Destroy(_ klog.Logger, name cm.CgroupName) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.known, types.UID(name[0]))
	return nil
}

func (p *podCgroups) GetPodCgroupMemoryUsage(pod *v1.Pod) (uint64, error) {
	return p.used(pod.UID), nil
}

func (p *podCgroups) GetAllPodsFromCgroups() (map[types.UID]cm.CgroupName, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	found := map[types.UID]cm.CgroupName{}
	for uid := range p.known {
		found[uid] = cm.CgroupName{string(uid)}
	}
	return found, nil
}

func (p *podCgroups) ReduceCPULimits(klog.Logger, cm.CgroupName) error { return nil }
func (p *podCgroups) IsPodCgroup(string) (bool, types.UID)             { return false, "" }
