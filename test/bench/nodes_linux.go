package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// What 20 nodes with 5 pods each must not exceed on a machine of two processors.
const (
	nodesTarget  = 180.0   // seconds until every node and every pod is Ready
	memoryTarget = 12000.0 // MB of 10^6 bytes
)

// Names of the group nodes.
const (
	nodesApp    = "many"
	nodesClient = "client" // a pod on the Linux node
	nodesPort   = 8080
)

// nodesBench is a cluster of many emulated Windows nodes.
type nodesBench struct {
	o      options
	dir    string
	client kubernetes.Interface
	http   *http.Client // makes its connections on lin01
}

// benchNodes measures how long a cluster of many emulated Windows nodes takes to come up and to run some pods on each,
// and how much memory that takes. Then it asks a service whose endpoints are on all of these nodes.
func benchNodes(ctx context.Context, o options) (err error) {
	if platform.NetnsExists(lab.Default.RouterNetns()) {
		return errors.New("a local cluster runs already (`porthole down` ends it)")
	}
	dir, remove, err := clusterFolder(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	// Memory is read before anything starts; printUse compares with it.
	free, err := availableMB()
	if err != nil {
		return err
	}

	b := &nodesBench{o: o, dir: dir, http: clientIn(lab.Default.Netns("lin01"))}
	came, err := up(ctx, filepath.Join(o.bin, "porthole"), dir, "--windows-nodes", strconv.Itoa(o.nodes))
	if err != nil {
		return err
	}
	if b.client, _, err = kube.Load(filepath.Join(dir, "kubeconfig"), "porthole-bench", -1, 0); err != nil {
		return err
	}

	began := time.Now()
	if err := b.startPods(ctx); err != nil {
		return err
	}
	if err := b.answering(ctx); err != nil {
		return err
	}
	b.printTimes(came, time.Since(began).Seconds())
	if err := b.printUse(ctx, free); err != nil {
		return err
	}
	return b.services(ctx)
}

// printTimes prints the times of nodes and pods; pods is in seconds. Steps that begin with "node "
// are those of nodes that became Ready.
func (b *nodesBench) printTimes(came steps, pods float64) {
	size := fmt.Sprintf("%d emulated Windows nodes", b.o.nodes)
	ready := 0.0
	for _, l := range came.lines {
		if strings.HasPrefix(l.What, "node ") {
			ready = max(ready, l.At)
		}
	}
	print(figure{Name: "nodes-ready", Unit: "s", Ours: ready,
		Note: size + ": from the start of `porthole up` until every node is Ready"})
	print(figure{Name: "nodes-up", Unit: "s", Ours: came.total(), Steps: came.lines,
		Note: "until `porthole up` has ended: it tests the path from a pod on every node to a pod on every node"})
	print(figure{Name: "nodes-pods-ready", Unit: "s", Ours: round(pods),
		Note: fmt.Sprintf(
			"from the creation of a deployment of %d pods until all are Ready and answer, %d on each node",
			b.o.nodes*b.o.pods, b.o.pods)})
	print(figure{Name: "nodes-and-pods", Unit: "s", Ours: round(came.total() + pods), Target: nodesTarget,
		Note: "both together"})
}

// idleTime is how long the processor time of a cluster that has nothing to do is watched.
const idleTime = 15 * time.Second

// printUse prints the memory of the cluster twice: by how much less the machine has available than before, which
// includes the kernel's share, and by process. Then it prints the processor time, of the start and of the cluster at
// rest.
func (b *nodesBench) printUse(ctx context.Context, before float64) error {
	now, err := availableMB()
	if err != nil {
		return err
	}
	byProgram, busy, err := clusterUse(b.dir)
	if err != nil {
		return err
	}
	print(figure{Name: "nodes-memory", Unit: "MB", Ours: round(before - now), Target: memoryTarget,
		Note: "by how much the machine has less memory available than before: what processes, kernel and mounts hold; caches can be taken back"})
	print(figure{Name: "nodes-memory-processes", Unit: "MB", Ours: round(busy.MB), Programs: byProgram,
		Note: "proportional set size of all processes of the cluster, pages of files among them"})
	print(figure{Name: "nodes-processor", Unit: "s", Ours: round(busy.CPU),
		Note: "processor time of these processes so far and of their children that have ended; by program under nodes-memory-processes"})

	began := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleTime):
	}
	after, idle, err := clusterUse(b.dir)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	// Processor time of the idle cluster is the growth within idleTime, by program.
	by := map[string]programUse{}
	for name, u := range after {
		by[name] = programUse{Processes: u.Processes, MB: u.MB, CPU: round((u.CPU - byProgram[name].CPU) / took)}
	}
	print(figure{Name: "nodes-idle-processor", Unit: "processors", Ours: round((idle.CPU - busy.CPU) / took),
		Programs: by,
		Note: fmt.Sprintf("in the %.0f s after all pods had answered; cpu of programs is in seconds per second",
			took)})
	return nil
}

// answering returns when every pod has answered a request: the program of a pod without a probe may listen later than
// the pod is Ready.
func (b *nodesBench) answering(ctx context.Context) error {
	by, err := b.readyByNode(ctx)
	if err != nil {
		return err
	}
	// All pods are asked at once, and every answer is waited for, so that no goroutine stays.
	errs := make(chan error)
	count := 0
	for _, pods := range by {
		for _, p := range pods {
			count++
			go func() {
				errs <- wait.For(ctx, time.Minute, "pod "+p.Name+" to answer", func(ctx context.Context) error {
					_, err := b.get(ctx, "http://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(nodesPort))+"/")
					return err
				})
			}()
		}
	}
	var all []error
	for range count {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// startPods makes the deployment and a pod on the Linux node, and returns when all are Ready.
func (b *nodesBench) startPods(ctx context.Context) error {
	count := b.o.nodes * b.o.pods
	ctx, cancel := context.WithTimeout(ctx, 2*patience(count))
	defer cancel()
	name := metav1.ObjectMeta{Name: namespace}
	if _, err := b.client.CoreV1().Namespaces().
		Create(ctx, &v1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := b.client.AppsV1().Deployments(namespace).
		Create(ctx, manyPods(count), metav1.CreateOptions{}); err != nil {
		return err
	}

	asker := benchPod(nodesClient, "lin01")
	asker.Spec.Containers[0] = serving()
	if _, err := b.client.CoreV1().Pods(namespace).Create(ctx, asker, metav1.CreateOptions{}); err != nil {
		return err
	}
	return wait.For(ctx, 2*patience(count), "all pods to be Ready", func(ctx context.Context) error {
		by, err := b.readyByNode(ctx)
		if err != nil {
			return err
		}
		ready := 0
		// A node with more than its share would hide that another one has fewer.
		for node, names := range by {
			if node != "lin01" && len(names) > b.o.pods {
				return fmt.Errorf("%d pods are Ready on node %s, want %d", len(names), node, b.o.pods)
			}
			ready += len(names)
		}
		if ready != count+1 {
			return fmt.Errorf("%d of %d pods are Ready", ready, count+1)
		}
		return nil
	})
}

// readyByNode returns the Ready pods of each node.
func (b *nodesBench) readyByNode(ctx context.Context) (map[string][]v1.Pod, error) {
	list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	by := map[string][]v1.Pod{}
	for _, p := range list.Items {
		if isReady(&p) {
			by[p.Spec.NodeName] = append(by[p.Spec.NodeName], p)
		}
	}
	return by, nil
}

// serving is a container that answers HTTP with its own host name, and fetches addresses for
// others.
func serving() v1.Container {
	return v1.Container{Name: "app", Image: windowsImage,
		Args: []string{"serve", "--http", fmt.Sprintf(":%d", nodesPort)}}
}

// manyPods is a deployment that puts as many pods on each Windows node as on any other.
// The spread is a hard constraint, because the figures are per node.
func manyPods(count int) *appsv1.Deployment {
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": nodesApp}}
	replicas, zero := int32(count), int64(0)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: nodesApp}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: labels,
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels.MatchLabels}, Spec: v1.PodSpec{
			NodeSelector:                  map[string]string{v1.LabelOSStable: "windows"},
			Tolerations:                   []v1.Toleration{{Operator: v1.TolerationOpExists}},
			TerminationGracePeriodSeconds: &zero,
			Containers:                    []v1.Container{serving()},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelHostname,
				WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: labels}},
		}},
	}}
}

// services asks a service over all pods until pods of every node have answered: from the pod on the Linux node, and
// from one on a Windows node. Then it asks once from a pod on each other Windows node.
func (b *nodesBench) services(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: nodesApp},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": nodesApp},
			Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(nodesPort)}}}}
	if _, err := b.client.CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return err
	}
	by, err := b.readyByNode(ctx)
	if err != nil {
		return err
	}

	homes := map[string]string{} // of a pod, by its name as it says it
	for node, pods := range by {
		for _, p := range pods {
			if node != "lin01" {
				homes[strings.ToLower(p.Name)] = node
			}
		}
	}
	for _, from := range []string{"lin01", windowsNode} {
		if err := b.askAll(ctx, by[from][0], homes); err != nil {
			return fmt.Errorf("service %s, asked by a pod on node %s: %w", nodesApp, from, err)
		}
	}
	for node, pods := range by {
		if _, err := b.askFrom(ctx, pods[0]); err != nil {
			return fmt.Errorf("service %s, asked by a pod on node %s: %w", nodesApp, node, err)
		}
	}
	return nil
}

// maxAsks is enough for 40 nodes: that one of them is never chosen has a probability of 40 x (39/40)^1500.
const maxAsks = 1500

// askAll asks the service from a pod until every node has answered, and prints after how many requests.
func (b *nodesBench) askAll(ctx context.Context, from v1.Pod, homes map[string]string) error {
	// The first requests may come before kube-proxy has programmed the service; they are not
	// counted.
	err := wait.For(ctx, 20*time.Second, "the service to answer", func(ctx context.Context) error {
		_, err := b.askFrom(ctx, from)
		return err
	})
	if err != nil {
		return err
	}

	seen := map[string]int{}
	began := time.Now()
	for asked := 1; asked <= maxAsks; asked++ {
		who, err := b.askFrom(ctx, from)
		if err != nil {
			return fmt.Errorf("request %d: %w", asked, err)
		}
		node := homes[who]
		if node == "" {
			return fmt.Errorf("request %d was answered by %q, which is no pod of the service", asked, who)
		}
		if seen[node]++; len(seen) == b.o.nodes {
			print(figure{Name: "nodes-service-from-" + from.Spec.NodeName, Unit: "requests", Ours: asked,
				Note: fmt.Sprintf("until pods of all %d nodes had answered, none unanswered; %.1f ms each", b.o.nodes,
					1000*time.Since(began).Seconds()/float64(asked))})
			return nil
		}
	}
	return fmt.Errorf("%d requests were answered by pods of %d nodes only: %v", maxAsks, len(seen), seen)
}

// askFrom has a pod ask the service, and returns the name of the pod that answered.
func (b *nodesBench) askFrom(ctx context.Context, from v1.Pod) (string, error) {
	target := fmt.Sprintf("http://%s.%s.svc.cluster.local/", nodesApp, namespace)
	address := net.JoinHostPort(from.Status.PodIP, strconv.Itoa(nodesPort))
	return b.get(ctx, "http://"+address+"/fetch?url="+url.QueryEscape(target))
}

// get returns the name of the pod that answered.
// An answer without a field hostname= is an error.
func (b *nodesBench) get(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := b.http.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return "", err
	}

	fields := strings.Fields(string(text))
	i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "hostname=") })
	if answer.StatusCode != http.StatusOK || i < 0 {
		return "", fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	return strings.ToLower(strings.TrimPrefix(fields[i], "hostname=")), nil
}

// clientIn makes requests from within a network namespace.
func clientIn(netns string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context,
		network, address string) (conn net.Conn, err error) {
		err = platform.InNetns(platform.NetnsPath(netns), func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}}
}
