package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// loadAnnotation tells what the program in a container uses, in the words of the cluster in memory:
//
//	sandbox.plumbline/load: "cpu: constant 100m, memory: leaking 100Mi 1Gi"
//	sandbox.plumbline/load.app: "startup: 2 10"
//
// Of those words, `constant`, `leaking`, `startup` and `exit` are known here.
const (
	loadAnnotation = "sandbox.plumbline/load"
	// resizeAnnotation makes the runtime odd: `refuse TEXT`, or `after DURATION` to be slow.
	resizeAnnotation = "sandbox.plumbline/resize"

	usualCores  = 0.005
	usualMemory = 20 << 20
)

type curve struct {
	begin   float64
	perHour float64
}

func (c curve) at(age time.Duration) float64 { return c.begin + c.perHour*age.Hours() }

type load struct {
	cpu          curve
	memory       curve
	startupCores float64
	startupWork  float64 // core-seconds
	exits        bool
	exitAfter    time.Duration
	exitCode     int32
}

// loadOf gives the load of a container, and the default for one that says nothing.
func loadOf(pod *v1.Pod, container string) (load, error) {
	found := load{cpu: curve{begin: usualCores}, memory: curve{begin: usualMemory}}
	if pod == nil {
		return found, nil
	}
	for _, item := range pod.Spec.Containers {
		if item.Name == container {
			if cpu, ok := item.Resources.Requests[v1.ResourceCPU]; ok {
				found.cpu.begin = cpu.AsApproximateFloat64() / 2
			}
			if memory, ok := item.Resources.Requests[v1.ResourceMemory]; ok {
				found.memory.begin = memory.AsApproximateFloat64() * 0.6
			}
		}
	}
	for _, key := range []string{loadAnnotation, loadAnnotation + "." + container} {
		for _, clause := range strings.Split(pod.Annotations[key], ",") {
			if err := found.read(clause); err != nil {
				return found, fmt.Errorf("%s of %s: %w", key, pod.Name, err)
			}
		}
	}
	return found, nil
}

func isTold(pod *v1.Pod, container string) bool {
	return pod != nil &&
		pod.Annotations[loadAnnotation]+pod.Annotations[loadAnnotation+"."+container] != ""
}

func (l *load) read(clause string) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(clause), ":")
	words := strings.Fields(rest)
	var err error
	switch {
	case name == "" || name == "noise":
	case name == "cpu":
		l.cpu, err = curveOf(words)
	case name == "memory":
		l.memory, err = curveOf(words)
	case name == "startup" && len(words) == 2:
		if l.startupCores, err = amount(words[0]); err == nil {
			l.startupWork, err = amount(words[1])
		}
	case name == "exit" && len(words) > 0:
		l.exits = true
		l.exitAfter, err = time.ParseDuration(words[0])
		if len(words) > 1 && err == nil {
			var code int
			code, err = strconv.Atoi(words[1])
			l.exitCode = int32(code)
		}
	default:
		err = fmt.Errorf("%q is no clause that is known here", clause)
	}
	return err
}

func curveOf(words []string) (curve, error) {
	amounts := []float64{}
	for _, word := range words[min(1, len(words)):] {
		value, err := amount(word)
		if err != nil {
			return curve{}, err
		}
		amounts = append(amounts, value)
	}
	switch {
	case len(amounts) == 1 && words[0] == "constant":
		return curve{begin: amounts[0]}, nil
	case len(amounts) == 2 && words[0] == "leaking":
		return curve{begin: amounts[0], perHour: amounts[1]}, nil
	}
	return curve{}, fmt.Errorf("%q is no curve that is known here", strings.Join(words, " "))
}

func amount(word string) (float64, error) {
	found, err := resource.ParseQuantity(word)
	return found.AsApproximateFloat64(), err
}

// oddity tells how a pod wants the runtime to treat its resizes.
func oddity(pod *v1.Pod) (refusal string, delay time.Duration) {
	if pod == nil {
		return "", 0
	}
	word, rest, _ := strings.Cut(pod.Annotations[resizeAnnotation], " ")
	switch word {
	case "refuse":
		return rest, 0
	case "after":
		delay, _ = time.ParseDuration(rest)
	}
	return "", delay
}
