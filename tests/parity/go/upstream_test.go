// Package parity plays stories through the upstream recommender.
//
// Upstream's own packages do the work, as its binary wires them, behind fakes of the API server.
// They ask the clock what time it is, so each story runs in a bubble whose clock begins at midnight
// of 2000-01-01 (testing/synctest) and moves only when the story sleeps.
package parity

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned/fake"
	vpaclient "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned/typed/autoscaling.k8s.io/v1"
	vpalisters "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/listers/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/checkpoint"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input/metrics"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input/oom"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const interval = time.Minute

// event is a line of a story, as `plumbline replay` reads it.
type event struct {
	Time       time.Time
	Type       string
	Namespace  string
	Pod        string
	Container  string
	CPU        string
	Memory     string
	Timestamp  *time.Time
	FinishedAt *time.Time
	Object     json.RawMessage
}

// plan says until when a story is played, and at which moments its state is told.
type plan struct {
	At    []time.Time
	Until time.Time
}

// cluster is what the recommender sees of an API server.
type cluster struct {
	vpas        map[types.NamespacedName]*vpav1.VerticalPodAutoscaler
	selectors   map[string]labels.Selector // by namespace, kind and name of their workload
	pods        cache.Indexer
	checkpoints *fake.Clientset
	usage       []*metrics.ContainerMetricsSnapshot // since the last tick
	kills       []oom.OomInfo
	evictions   []*corev1.Event
	stored      []*corev1.Event // all evictions; an API server forgets them after an hour
}

func newCluster() *cluster {
	return &cluster{
		vpas:        map[types.NamespacedName]*vpav1.VerticalPodAutoscaler{},
		selectors:   map[string]labels.Selector{},
		pods:        cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		checkpoints: fake.NewSimpleClientset(),
	}
}

// --- what the recommender asks

type vpaLister struct {
	vpalisters.VerticalPodAutoscalerLister
	of *cluster
}

func (l vpaLister) List(labels.Selector) ([]*vpav1.VerticalPodAutoscaler, error) {
	var found []*vpav1.VerticalPodAutoscaler
	for _, vpa := range l.of.vpas {
		found = append(found, vpa)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found, nil
}

type checkpointLister struct {
	vpalisters.VerticalPodAutoscalerCheckpointLister
	of *cluster
}

func (l checkpointLister) List(labels.Selector) ([]*vpav1.VerticalPodAutoscalerCheckpoint, error) {
	all := l.of.checkpoints.AutoscalingV1().VerticalPodAutoscalerCheckpoints("")
	list, err := all.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []*vpav1.VerticalPodAutoscalerCheckpoint
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// statuses takes the patches of statuses; nothing else is written to VPAs.
type statuses struct {
	vpaclient.VerticalPodAutoscalerInterface
	*cluster
	namespace string
}

func (c *cluster) VerticalPodAutoscalers(namespace string) vpaclient.VerticalPodAutoscalerInterface {
	return statuses{cluster: c, namespace: namespace}
}

func (s statuses) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*vpav1.VerticalPodAutoscaler, error) {
	var operations []struct {
		Value vpav1.VerticalPodAutoscalerStatus
	}
	if err := json.Unmarshal(data, &operations); err != nil {
		return nil, err
	}
	key := types.NamespacedName{Namespace: s.namespace, Name: name}
	fresh := s.vpas[key].DeepCopy()
	fresh.Status = operations[0].Value
	s.vpas[key] = fresh
	return fresh, nil
}

func (c *cluster) Fetch(_ context.Context, vpa *vpav1.VerticalPodAutoscaler) (labels.Selector, error) {
	target := vpa.Spec.TargetRef
	if found, ok := c.selectors[workload(vpa.Namespace, target.Kind, target.Name)]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("%s %s/%s does not exist", target.Kind, vpa.Namespace, target.Name)
}

func (c *cluster) FindTopMostWellKnownOrScalable(_ context.Context, key *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return key, nil
}

func (c *cluster) GetContainersMetrics(context.Context) ([]*metrics.ContainerMetricsSnapshot, error) {
	found := c.usage
	c.usage = nil
	return found, nil
}

func (c *cluster) recommender(kills oom.Observer) routines.Recommender {
	state := model.NewClusterState(time.Hour)
	feeder := input.ClusterStateFeederFactory{
		PodLister:           listersv1.NewPodLister(c.pods),
		OOMObserver:         kills,
		MetricsClient:       c,
		VpaCheckpointClient: c.checkpoints.AutoscalingV1(),
		VpaLister:           vpaLister{of: c},
		VpaCheckpointLister: checkpointLister{of: c},
		ClusterState:        state,
		SelectorFetcher:     c,
		ControllerFetcher:   c,
		RecommenderName:     "default",
		IgnoredNamespaces:   []string{""},
	}.Make()
	day := 24 * time.Hour
	recommender := routines.RecommenderFactory{
		ClusterState:       state,
		ClusterStateFeeder: feeder,
		ControllerFetcher:  c,
		CheckpointWriter:   checkpoint.NewCheckpointWriter(state, c.checkpoints.AutoscalingV1()),
		VpaClient:          c,
		PodResourceRecommender: logic.CreatePodResourceRecommender(logic.RecommendationConfig{
			SafetyMarginFraction: 0.15, PodMinCPUMillicores: 25, PodMinMemoryMb: 250,
			TargetCPUPercentile: 0.9, LowerBoundCPUPercentile: 0.5, UpperBoundCPUPercentile: 0.95, ConfidenceIntervalCPU: day,
			TargetMemoryPercentile: 0.9, LowerBoundMemoryPercentile: 0.5, UpperBoundMemoryPercentile: 0.95, ConfidenceIntervalMemory: day,
		}),
		RecommendationFormat: logic.RecommendationFormat{RoundCPUMillicores: 1, RoundMemoryBytes: 1},
		RecommendationPostProcessors: []routines.RecommendationPostProcessor{
			routines.NewCappingRecommendationProcessor(corev1.ResourceList{}),
		},
		CheckpointsGCInterval: 10 * time.Minute, CheckpointsWriteTimeout: time.Minute, UseCheckpoints: true,
		UpdateWorkerCount: 1,
	}.Make()
	recommender.GetClusterStateFeeder().InitFromCheckpoints(context.Background())
	return recommender
}

// --- what happens in a story

func (c *cluster) happen(e event) error {
	id := model.ContainerID{PodID: model.PodID{Namespace: e.Namespace, PodName: e.Pod}, ContainerName: e.Container}
	switch e.Type {
	case "usage":
		c.usage = append(c.usage, &metrics.ContainerMetricsSnapshot{
			ID: id, SnapshotTime: first(e.Timestamp, e.Time), SnapshotWindow: interval,
			// What is missing counts as zero, as upstream's client of the metrics API has it.
			Usage: model.Resources{model.ResourceCPU: amount(e.CPU, (*resource.Quantity).MilliValue), model.ResourceMemory: amount(e.Memory, (*resource.Quantity).Value)},
		})
	case "oom":
		memory := amount(e.Memory, (*resource.Quantity).Value)
		c.kills = append(c.kills, oom.OomInfo{Timestamp: first(e.FinishedAt, e.Time), Memory: memory, ContainerID: id})
	case "apply":
		return c.apply(e.Object)
	case "delete":
		return c.remove(e.Object)
	}
	return nil
}

func (c *cluster) apply(raw json.RawMessage) error {
	var about struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Spec     struct{ Selector *metav1.LabelSelector }
	}
	switch err := json.Unmarshal(raw, &about); {
	case err != nil:
		return err
	case about.Kind == "Pod":
		var pod corev1.Pod
		if err := json.Unmarshal(raw, &pod); err != nil {
			return err
		}
		return c.pods.Add(&pod)
	case about.Kind == "Event":
		var told corev1.Event
		if err := json.Unmarshal(raw, &told); err != nil {
			return err
		}
		c.evictions = append(c.evictions, &told)
		c.stored = append(c.stored, &told)
	case about.Kind == "VerticalPodAutoscaler":
		var vpa vpav1.VerticalPodAutoscaler
		if err := json.Unmarshal(raw, &vpa); err != nil {
			return err
		}
		key := types.NamespacedName{Namespace: vpa.Namespace, Name: vpa.Name}
		if old, ok := c.vpas[key]; ok {
			vpa.Status = old.Status
		}
		c.vpas[key] = &vpa
	default:
		selector, err := metav1.LabelSelectorAsSelector(about.Spec.Selector)
		if err != nil {
			return err
		}
		c.selectors[workload(about.Metadata.Namespace, about.Kind, about.Metadata.Name)] = selector
	}
	return nil
}

func (c *cluster) remove(raw json.RawMessage) error {
	var gone struct{ Kind, Namespace, Name string }
	if err := json.Unmarshal(raw, &gone); err != nil {
		return err
	}
	switch gone.Kind {
	case "Pod":
		return c.pods.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: gone.Name}})
	case "VerticalPodAutoscaler":
		delete(c.vpas, types.NamespacedName{Namespace: gone.Namespace, Name: gone.Name})
	default:
		delete(c.selectors, workload(gone.Namespace, gone.Kind, gone.Name))
	}
	return nil
}

// tell hands over the kills of the time since the last tick.
func (c *cluster) tell(kills oom.Observer) {
	for _, one := range c.evictions {
		kills.OnEvent(one)
	}
	for _, one := range c.kills {
		kills.GetObservedOomsChannel() <- one
	}
	c.evictions, c.kills = nil, nil
}

// begin lets the watch of a new process tell of the evictions that are still stored. What the old
// process had not read or counted is lost: the next tick is an interval away, and finds newer usage.
func (c *cluster) begin() {
	c.usage, c.evictions, c.kills = nil, nil, nil
	for _, one := range c.stored {
		if time.Since(one.CreationTimestamp.Time) <= time.Hour {
			c.evictions = append(c.evictions, one)
		}
	}
}

// --- playing

func play(t *testing.T, folder string) {
	day := 24 * time.Hour
	model.InitializeAggregationsConfig(model.NewAggregationsConfig(day, 8, day, day, 1.2, 100*1024*1024))
	out, err := os.Create(filepath.Join(folder, "upstream.jsonl"))
	must(t, err)
	defer out.Close()
	seen := newCluster()
	for _, line := range lines[json.RawMessage](t, folder, "objects.jsonl") {
		must(t, seen.apply(line))
	}
	events, restarts := divided(lines[event](t, folder, "events.jsonl"))
	todo := lines[plan](t, folder, "plan.jsonl")[0]

	kills := oom.NewObserver()
	recommender := seen.recommender(kills)
	tick := time.Now().Add(interval)
	for {
		// At one moment first everything else that happens, then the tick, then a restart.
		isRestart := len(restarts) > 0 && restarts[0].Before(tick)
		next := tick
		if isRestart {
			next, restarts = restarts[0], restarts[1:]
		}
		for len(events) > 0 && !events[0].Time.After(next) {
			todo.At = seen.printBefore(t, out, todo.At, events[0].Time)
			must(t, seen.happen(events[0]))
			events = events[1:]
		}
		todo.At = seen.printBefore(t, out, todo.At, next)
		if next.After(todo.Until) {
			break
		}
		time.Sleep(time.Until(next))
		if isRestart {
			seen.begin()
			kills = oom.NewObserver()
			recommender = seen.recommender(kills)
		} else {
			seen.tell(kills)
			recommender.RunOnce()
		}
		tick = next.Add(interval)
	}
	stored, err := checkpointLister{of: seen}.List(labels.Everything())
	must(t, err)
	for _, one := range stored {
		write(t, out, map[string]any{"checkpoint": one})
	}
}

// divided takes restarts out of the events; it returns when they are.
func divided(all []event) (others []event, restarts []time.Time) {
	for _, e := range all {
		if e.Type == "restart" {
			restarts = append(restarts, e.Time)
		} else {
			others = append(others, e)
		}
	}
	return others, restarts
}

// printBefore tells the state for the moments before another one; it returns the rest of them.
func (c *cluster) printBefore(t *testing.T, out *os.File, moments []time.Time, end time.Time) []time.Time {
	for len(moments) > 0 && moments[0].Before(end) {
		c.print(t, out, moments[0])
		moments = moments[1:]
	}
	return moments
}

func (c *cluster) print(t *testing.T, out *os.File, at time.Time) {
	all, err := vpaLister{of: c}.List(labels.Everything())
	must(t, err)
	for _, vpa := range all {
		write(t, out, map[string]any{
			"time": at.UTC().Format(time.RFC3339), "namespace": vpa.Namespace, "name": vpa.Name,
			"recommendation": whole(vpa.Status.Recommendation), "conditions": vpa.Status.Conditions,
		})
	}
}

// whole returns a recommendation with all lists of each container: JSON leaves empty ones out.
func whole(told *vpav1.RecommendedPodResources) any {
	if told == nil {
		return nil
	}
	containers := []map[string]any{}
	for _, one := range told.ContainerRecommendations {
		containers = append(containers, map[string]any{
			"containerName": one.ContainerName, "target": amounts(one.Target), "lowerBound": amounts(one.LowerBound),
			"upperBound": amounts(one.UpperBound), "uncappedTarget": amounts(one.UncappedTarget),
		})
	}
	return map[string]any{"containerRecommendations": containers}
}

func amounts(told corev1.ResourceList) corev1.ResourceList {
	if told == nil {
		return corev1.ResourceList{}
	}
	return told
}

func write(t *testing.T, out *os.File, value any) {
	must(t, json.NewEncoder(out).Encode(value))
}

func lines[T any](t *testing.T, folder, name string) []T {
	file, err := os.Open(filepath.Join(folder, name))
	must(t, err)
	defer file.Close()
	var found []T
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var one T
		must(t, json.Unmarshal(scanner.Bytes(), &one))
		found = append(found, one)
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func workload(namespace, kind, name string) string { return namespace + "/" + kind + "/" + name }

func first(given *time.Time, otherwise time.Time) time.Time {
	if given != nil {
		return *given
	}
	return otherwise
}

func amount(text string, read func(*resource.Quantity) int64) model.ResourceAmount {
	if text == "" {
		return 0
	}
	quantity := resource.MustParse(text)
	return model.ResourceAmount(read(&quantity))
}

// TestStories plays every story of the folder that STORIES names.
func TestStories(t *testing.T) {
	klog.SetLogger(klog.Logger{}) // says nothing, and starts nothing in a bubble
	must(t, features.MutableFeatureGate.Set("PerVPAConfig=true"))
	folders, err := filepath.Glob(filepath.Join(os.Getenv("STORIES"), "*"))
	must(t, err)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, folder) })
		})
	}
}
