package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/podranges"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/ovn/nb"
)

// lock is the name of the lock of the northbound database that the working controller holds.
const lock = "porthole_ovn"

// period is how often everything is compared although no change was reported. The database reports changes by others,
// so this only matters after a failure.
const period = 10 * time.Second

// settle is how long a pass waits after a change for others. One transaction with many changes costs OVN less than
// many with one.
const settle = 10 * time.Millisecond

// connectWait bounds one attempt to reach a database.
const connectWait = 5 * time.Second

var backoff = retry.Backoff{First: 200 * time.Millisecond, Max: 5 * time.Second}

// Options of a Controller.
type Options struct {
	// NB and SB are the addresses of OVN's databases, as ovsdb.Dial takes them. Required.
	NB, SB string
	// Ranges are what pod ranges of nodes are held against.
	Ranges podranges.Cluster
	// Cluster is the API server. Required.
	Cluster cluster
}

// cluster is what the controller needs of the API server; kube.Everything implements it.
type cluster interface {
	source
	// AnnotatePod sets an annotation of a pod, unless another pod has its name by now.
	AnnotatePod(ctx context.Context, pod *corev1.Pod, key, value string) error
	// Warn writes an event. It does not block.
	Warn(kind string, about metav1.Object, reason, message string)
}

// source lists the objects of the cluster, which must not be changed.
type source interface {
	// Synced reports whether the lists are complete.
	Synced() bool
	Nodes() []*corev1.Node
	Pods() []*corev1.Pod
	Services() []*corev1.Service
	Slices() []*discoveryv1.EndpointSlice
}

// Controller keeps the northbound database. Make it with New.
type Controller struct {
	o    Options
	wake wakeup.Signal

	rivals rivals

	warned map[nb.Problem]bool // problems for which an event was written

	mu     sync.Mutex
	status Status
}

// Status describes the last pass.
type Status struct {
	// Active is true while this controller holds the lock. If it is false and Error is empty, another controller holds
	// it.
	Active   bool      `json:"active"`
	Error    string    `json:"error,omitempty"`
	LastSync time.Time `json:"lastSync,omitzero"`
	Writes   int       `json:"writes"` // transactions since the start
	Pods     int       `json:"pods"`   // with an address
	// LoadBalancers counts those in the database: one for each protocol of a service.
	LoadBalancers int      `json:"loadBalancers"`
	Problems      []string `json:"problems,omitempty"`
}

// New returns a Controller that does nothing before Run.
func New(o Options) *Controller {
	return &Controller{o: o, wake: wakeup.New(), warned: map[nb.Problem]bool{}}
}

// Changed makes the next pass come soon. It never blocks.
func (c *Controller) Changed() { c.wake.Wake() }

// Status returns the outcome of the last pass.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Controller) report(change func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.status)
}

// Run works until ctx ends. What it made stays.
func (c *Controller) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.watchChassis(ctx) })
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			failures = 0
		}
		failures++
		c.report(func(s *Status) { s.Active, s.Error = false, err.Error() })
		klog.FromContext(ctx).Error(err, "The northbound database is away; OVN goes on with what it has")
		wakeup.Pause(ctx, backoff.Wait(failures))
	}
}

// session works with one connection to the database until that ends.
func (c *Controller) session(ctx context.Context) error {
	dialling, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	client, err := ovsdb.Dial(dialling, c.o.NB)
	if err != nil {
		return err
	}
	defer client.Close()
	cache, err := client.Monitor(dialling, nb.Database, nb.Columns(), c.Changed)
	if err != nil {
		return err
	}

	held, err := c.lock(dialling, client)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Connected to the northbound database", "address", c.o.NB, "active", held())
	working, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-client.Done():
			end()
		case <-working.Done():
		}
	}()
	loop.Loop{Wake: c.wake, Settle: settle, Period: period, Retry: backoff, Pass: func(ctx context.Context) error {
		c.report(func(s *Status) { s.Active = held() })
		if !held() || !c.o.Cluster.Synced() {
			return nil
		}
		err := c.pass(ctx, client, cache)
		c.report(func(s *Status) {
			s.Error = ""
			if err != nil {
				s.Error = err.Error()
			}
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Keeping OVN as the cluster wants it")
		}
		return err
	}}.Run(working)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return client.Err()
}

// lock asks for the lock of the database. held returns whether the connection has it now.
func (c *Controller) lock(ctx context.Context, client *ovsdb.Client) (held func() bool, err error) {
	var mu sync.Mutex
	has := false
	first, err := client.Lock(ctx, lock, func(now bool) {
		mu.Lock()
		has = now
		mu.Unlock()
		c.Changed()
	})
	mu.Lock()
	has = has || first
	mu.Unlock()
	return func() bool { mu.Lock(); defer mu.Unlock(); return has }, err
}

// pass compares the cluster with the database once, and writes the differences.
func (c *Controller) pass(ctx context.Context, client *ovsdb.Client, cache *ovsdb.Cache) error {
	seen := cache.Tables()
	wanted := nb.Want(factsOf(c.o.Cluster, c.o.Ranges), seen)
	wanted.Problems = append(wanted.Problems, c.rivals.problems(time.Now())...)
	plan := nb.MakePlan(wanted, seen)
	c.warn(wanted.Problems)

	if len(plan.Gone) > 0 {
		// Chassis go before the switches. If this fails the switches stay, and the next pass finds the chassis by them.
		if err := c.deleteChassis(ctx, plan.Gone); err != nil {
			return err
		}
	}
	if len(plan.Ops) > 0 {
		klog.FromContext(ctx).Info("Changing the northbound database", "changes", len(plan.Changes), "plan",
			plan.String())
		if _, err := client.Transact(ctx, nb.Database,
			append([]ovsdb.Op{ovsdb.Assert(lock)}, plan.Ops...)...); err != nil {
			return fmt.Errorf("writing the northbound database: %w", err)
		}
	}

	err := c.annotate(ctx, wanted)
	c.report(func(s *Status) {
		s.LastSync = time.Now()
		s.Pods = len(wanted.Addresses)
		s.Problems = nil
		s.LoadBalancers = wanted.Count("Load_Balancer")
		if len(plan.Ops) > 0 {
			s.Writes++
		}
		for _, p := range wanted.Problems {
			s.Problems = append(s.Problems, p.String())
		}
	})
	return err
}

// annotate writes the addresses of pods whose annotation is missing or differs. Their ports are in the database by now.
func (c *Controller) annotate(ctx context.Context, wanted nb.Wanted) error {
	var errs []error
	for _, p := range c.o.Cluster.Pods() {
		at, ok := wanted.Addresses[p.Namespace+"/"+p.Name]
		if !ok || !networked(p) {
			continue
		}
		subnet := wanted.Subnets[p.Spec.NodeName]
		have, haveSubnet, _, err := ovnet.ParseAnnotation(p.Annotations[ovnet.Annotation])
		if err == nil && have == at && haveSubnet == subnet {
			continue
		}
		errs = append(errs, c.o.Cluster.AnnotatePod(ctx, p, ovnet.Annotation, ovnet.AnnotationOf(at, subnet)))
	}
	return errors.Join(errs...)
}

// deleteChassis removes nodes from the southbound database, whereupon the other nodes remove their tunnels to them.
// Nobody else does that for a deleted node. A node that still runs registers itself again.
func (c *Controller) deleteChassis(ctx context.Context, nodes []string) error {
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	client, err := ovsdb.Dial(ctx, c.o.SB)
	if err != nil {
		return fmt.Errorf("deleting chassis %v: %w", nodes, err)
	}
	defer client.Close()
	var ops []ovsdb.Op
	for _, n := range nodes {
		ops = append(ops, ovsdb.Delete("Chassis", ovsdb.Equal("name", n)),
			ovsdb.Delete("Chassis_Private", ovsdb.Equal("name", n)))
	}
	if _, err := client.Transact(ctx, "OVN_Southbound", ops...); err != nil {
		return fmt.Errorf("deleting chassis %v: %w", nodes, err)
	}
	klog.FromContext(ctx).Info("Deleted chassis of nodes that are gone", "nodes", nodes)
	return nil
}

// warn writes an event for each problem that the pass before did not have.
func (c *Controller) warn(problems []nb.Problem) {
	objects := map[string]metav1.Object{}
	if len(problems) > 0 {
		for _, n := range c.o.Cluster.Nodes() {
			objects["Node "+n.Name] = n
		}
		for _, p := range c.o.Cluster.Pods() {
			objects["Pod "+p.Namespace+"/"+p.Name] = p
		}
	}
	for _, p := range problems {
		if about := objects[p.Kind+" "+p.Key]; about != nil && !c.warned[p] {
			c.o.Cluster.Warn(p.Kind, about, p.Reason, p.Text)
		}
		c.warned[p] = true
	}
	maps.DeleteFunc(c.warned, func(p nb.Problem, _ bool) bool { return !slices.Contains(problems, p) })
}
