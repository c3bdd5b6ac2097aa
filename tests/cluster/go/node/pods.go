package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const podPatience = 5 * time.Second

// watchedPods are the pods of a node as they are now. A runtime is told of annotations only when a
// pod starts, but load changes while it runs.
type watchedPods struct{ store cache.Store }

func watchPods(ctx context.Context, client clientset.Interface, node string) *watchedPods {
	mine := fields.OneTermEqualSelector("spec.nodeName", node)
	watch := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", v1.NamespaceAll, mine)
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: watch,
		ObjectType:    &v1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{},
	})
	go controller.RunWithContext(ctx)
	return &watchedPods{store}
}

func (w *watchedPods) get(namespace, name string) *v1.Pod {
	found, _, _ := w.store.GetByKey(namespace + "/" + name)
	pod, _ := found.(*v1.Pod)
	return pod
}

// wait gives a pod that the kubelet has seen and this watch perhaps not yet.
func (w *watchedPods) wait(namespace, name string) *v1.Pod {
	for until := time.Now().Add(podPatience); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if pod := w.get(namespace, name); pod != nil {
			return pod
		}
	}
	return nil
}
