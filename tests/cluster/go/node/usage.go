package main

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const lookEvery = 200 * time.Millisecond

// usage is what a container has used since it started.
type usage struct {
	counted     time.Time // up to when
	nanoseconds uint64    // of cpu
	cores       float64   // at present
	memory      uint64
	worked      float64 // core-seconds of its startup work
	isUseful    bool    // whether that is done
	complaint   string
}

// housekeep looks again and again at what all containers use, and ends those that use too much.
func (r *runtime) housekeep(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			r.mutex.Lock()
			for _, each := range r.containers {
				// What says nothing of its load uses the same until somebody asks.
				if pod := r.podOf(each); each.isRunning() && isTold(pod, each.name()) {
					r.count(each, pod, now)
				}
			}
			r.mutex.Unlock()
		}
	}
}

// count brings the numbers of a container up to a moment. Time is cut to milliseconds here and in
// what is told, or a steady quarter of a core is shown as a little more.
func (r *runtime) count(c *container, pod *v1.Pod, now time.Time) {
	now = now.Truncate(time.Millisecond)
	passed := now.Sub(c.usage.counted)
	if passed < 0 {
		return
	}
	c.usage.nanoseconds += uint64(math.Round(c.usage.cores * float64(passed.Nanoseconds())))
	c.usage.worked += c.usage.cores * passed.Seconds()
	c.usage.counted = now
	told, err := loadOf(pod, c.name())
	if err != nil && err.Error() != c.usage.complaint {
		c.usage.complaint = err.Error()
		klog.ErrorS(err, "A load is not understood")
	}
	age := now.Sub(c.started)
	cores := told.cpu.at(age)
	if !c.usage.isUseful && c.usage.worked < told.startupWork {
		cores = told.startupCores
	} else if !c.usage.isUseful {
		c.usage.isUseful = true
		c.doors = r.network.open(c.sandbox.address, pod, c.name())
	}
	c.usage.cores = math.Max(0, math.Min(cores, c.coreLimit()))
	c.usage.memory = uint64(math.Max(0, told.memory.at(age)))
	if limit := c.resources.GetMemoryLimitInBytes(); limit > 0 && c.usage.memory > uint64(limit) {
		c.end(exitKilled, reasonMemory)
	} else if told.exits && age >= told.exitAfter {
		reason := reasonCompleted
		if told.exitCode != 0 {
			reason = reasonError
		}
		c.end(told.exitCode, reason)
	}
}

func (c *container) coreLimit() float64 {
	quota, period := c.resources.GetCpuQuota(), c.resources.GetCpuPeriod()
	if quota <= 0 || period <= 0 {
		return math.Inf(1)
	}
	return float64(quota) / float64(period)
}

func (r *runtime) memoryUsed() uint64 {
	return r.memoryWhere(func(*container) bool { return true })
}

func (r *runtime) memoryUsedBy(uid types.UID) uint64 {
	return r.memoryWhere(func(c *container) bool { return c.sandbox.uid() == uid })
}

func (r *runtime) memoryWhere(wanted func(*container) bool) uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sum := uint64(0)
	for _, each := range r.containers {
		if each.isRunning() && wanted(each) {
			sum += each.usage.memory
		}
	}
	return sum
}
