package main

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// serveMetrics tells usage under the names that cAdvisor gives it. The kubelet's own page of these
// takes numbers from a runtime as whole seconds of cpu, which are too few for short tests.
func serveMetrics(port int, r *runtime) {
	page := http.NewServeMux()
	page.HandleFunc("/metrics", func(response http.ResponseWriter, _ *http.Request) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		for _, each := range r.containers {
			if !each.isRunning() {
				continue
			}
			r.count(each, r.podOf(each), time.Now())
			metadata := each.sandbox.config.GetMetadata()
			labels := fmt.Sprintf(
				"{namespace=%q,pod=%q,container=%q,id=%q,name=%q}", metadata.GetNamespace(),
				metadata.GetName(), each.name(), "/kubepods/"+each.id, each.id)
			seconds := float64(each.usage.nanoseconds) / 1e9
			_, _ = fmt.Fprintf(response, "container_cpu_usage_seconds_total%s %f\n", labels, seconds)
			_, _ = fmt.Fprintf(
				response, "container_memory_working_set_bytes%s %d\n", labels, each.usage.memory)
		}
	})
	if err := http.ListenAndServe(fmt.Sprintf("%s:%d", loopback, port), page); err != nil {
		klog.ErrorS(err, "Metrics are not served")
	}
}
