package main

import (
	"context"
	"math"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	fakecadvisor "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
)

const (
	rootCgroup = "/"
	diskBytes  = 100 << 30
	diskInodes = uint64(1 << 24)
)

// machine is what cAdvisor tells of a node: its size, and how much of it is used.
type machine struct {
	fakecadvisor.Fake
	name string
	size size
	used func() uint64
}

var _ cadvisor.Interface = (*machine)(nil)

func (m *machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{
		// A part of a core is taken away again as reserved: see containerManager.
		NumCores:       int(math.Ceil(m.size.cpu.AsApproximateFloat64())),
		InstanceID:     cadvisorapi.InstanceID(m.name),
		MemoryCapacity: uint64(m.size.memory.Value()),
	}, nil
}

// ContainerInfoV2 knows the root alone, without which the kubelet has no numbers at all.
func (m *machine) ContainerInfoV2(
	string, cadvisorapiv2.RequestOptions,
) (map[string]cadvisorapiv2.ContainerInfo, error) {
	used := m.used()
	now := time.Now()
	stats := func(at time.Time) *cadvisorapiv2.ContainerStats {
		return &cadvisorapiv2.ContainerStats{
			Timestamp: at,
			Cpu:       &cadvisorapi.CpuStats{},
			CpuInst:   &cadvisorapiv2.CpuInstStats{},
			Memory:    &cadvisorapi.MemoryStats{Usage: used, WorkingSet: used},
		}
	}
	return map[string]cadvisorapiv2.ContainerInfo{rootCgroup: {
		Spec: cadvisorapiv2.ContainerSpec{
			CreationTime: now,
			HasCpu:       true,
			HasMemory:    true,
			Memory:       cadvisorapiv2.MemorySpec{Limit: uint64(m.size.memory.Value())},
		},
		Stats: []*cadvisorapiv2.ContainerStats{stats(now.Add(-time.Second)), stats(now)},
	}}, nil
}

func disk() (cadvisorapiv2.FsInfo, error) {
	inodes, free := diskInodes, diskInodes
	return cadvisorapiv2.FsInfo{
		Timestamp:  time.Now(),
		Capacity:   diskBytes,
		Available:  diskBytes,
		Inodes:     &inodes,
		InodesFree: &free,
	}, nil
}

func (m *machine) ImagesFsInfo(context.Context) (cadvisorapiv2.FsInfo, error)    { return disk() }
func (m *machine) ContainerFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) { return disk() }
func (m *machine) RootFsInfo() (cadvisorapiv2.FsInfo, error)                     { return disk() }
func (m *machine) GetDirFsInfo(string) (cadvisorapiv2.FsInfo, error)             { return disk() }
