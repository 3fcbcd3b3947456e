package manifest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reader reads a cluster. internal/kube's Cluster implements it.
type Reader interface {
	// Object returns the object at a path of the API as JSON; nil if there is none.
	Object(ctx context.Context, path string) ([]byte, error)
	DaemonSets(ctx context.Context) ([]appsv1.DaemonSet, error)
}

// Finding is something that is not as it should be.
type Finding struct {
	Object  string `json:"object"`  // kind and name
	Problem string `json:"problem"` // what is wrong, and the cure
	// Warning: nodes join and work all the same.
	Warning bool `json:"warning,omitempty"`
}

func (f Finding) String() string { return f.Object + " " + f.Problem }

// Check compares a cluster with the objects. Fields that the objects do not have may be anything. An object that
// cannot be read is an error, because it may be there.
func Check(ctx context.Context, r Reader, objects []Object) (found []Finding, err error) {
	for _, o := range objects {
		path, name := pathOf(o)
		data, err := r.Object(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if data == nil {
			found = append(found, Finding{Object: name, Problem: "is missing: porthole manifests | kubectl apply -f -"})
			continue
		}
		wanted, err := plain(o)
		if err != nil {
			return nil, err
		}
		var has any
		if err := json.Unmarshal(data, &has); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if where, want := difference("", wanted, has); where != "" {
			found = append(found, Finding{Object: name,
				Problem: fmt.Sprintf("differs: %s is not %s: porthole manifests | kubectl apply -f -", where, want)})
		}
	}

	sets, err := r.DaemonSets(ctx)
	if err != nil {
		return nil, err
	}
	return append(found, withoutSystem(sets)...), nil
}

// pathOf returns where an object is in the API, and its kind and name.
func pathOf(o Object) (path, name string) {
	meta := o["metadata"].(Object)
	api, kind, name := o["apiVersion"].(string), o["kind"].(string), meta["name"].(string)
	path = "/apis/" + api
	if !strings.Contains(api, "/") {
		path = "/api/" + api
	}
	shown := name
	if ns, _ := meta["namespace"].(string); ns != "" {
		path, shown = path+"/namespaces/"+ns, ns+"/"+name
	}
	return path + "/" + strings.ToLower(kind) + "s/" + name, kind + " " + shown
}

// plain returns the object as JSON reads it.
func plain(o Object) (read any, err error) {
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	return read, err
}

// difference returns the first field of wanted that has lacks or has otherwise, and what it should be; "" if there is
// none. Lists must be of the same length.
func difference(at string, wanted, has any) (where, want string) {
	switch w := wanted.(type) {
	case map[string]any:
		h, _ := has.(map[string]any)
		var keys []string
		for key := range w {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if where, want := difference(strings.TrimPrefix(at+"."+key, "."), w[key], h[key]); where != "" {
				return where, want
			}
		}
		return "", ""

	case []any:
		h, _ := has.([]any)
		if len(h) != len(w) {
			return at, short(wanted)
		}
		for i := range w {
			if where, want := difference(fmt.Sprintf("%s[%d]", at, i), w[i], h[i]); where != "" {
				return where, want
			}
		}
		return "", ""
	}
	if wanted != has {
		return at, short(wanted)
	}
	return "", ""
}

func short(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// withoutSystem finds DaemonSets that also start on Windows nodes although none of their images can be known to run
// there: they name no operating system.
func withoutSystem(sets []appsv1.DaemonSet) (found []Finding) {
	for _, d := range sets {
		pod := d.Spec.Template.Spec
		if namesSystem(pod) {
			continue
		}
		found = append(found, Finding{Object: "DaemonSet " + d.Namespace + "/" + d.Name, Warning: true,
			Problem: fmt.Sprintf(
				"names no operating system, so its pods also start on Windows nodes: kubectl -n %s patch daemonset %s -p '{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"kubernetes.io/os\":\"linux\"}}}}}'",
				d.Namespace, d.Name)})
	}
	return found
}

// namesSystem reports whether a pod can start on nodes of one operating system only.
func namesSystem(pod corev1.PodSpec) bool {
	const beta = "beta.kubernetes.io/os" // the label before Kubernetes 1.14
	if pod.NodeSelector[corev1.LabelOSStable] != "" || pod.NodeSelector[beta] != "" {
		return true
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil ||
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == corev1.LabelOSStable || e.Key == beta
		})
	})
}
