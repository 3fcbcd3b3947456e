package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../../packaging/helm/porthole"

// render runs the chart's templates with values over its own. Helm is text/template with functions of its own; those
// that the chart uses are here, as https://helm.sh/docs/chart_template_guide/function_list describes them.
func render(t *testing.T, values string) (objects []Object, notes string) {
	t.Helper()
	read := func(name string) (doc map[string]any) {
		text, err := os.ReadFile(filepath.Join(chart, name))
		if err == nil {
			err = yaml.UnmarshalStrict(text, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	var over map[string]any
	if err := yaml.Unmarshal([]byte(values), &over); err != nil {
		t.Fatal(err)
	}
	about := read("Chart.yaml")
	data := map[string]any{"Values": merged(read("values.yaml"), over),
		"Chart": map[string]any{"AppVersion": about["appVersion"]}}

	set := template.New("").Option("missingkey=error")
	set.Funcs(template.FuncMap{
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"default": func(other, given any) any {
			if given == nil || given == "" {
				return other
			}
			return given
		},
		"toJson": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := set.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	})
	if _, err := set.ParseGlob(filepath.Join(chart, "templates", "*")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"rights.yaml", "linux-routes.yaml", "NOTES.txt"} {
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, file, data); err != nil {
			t.Fatal(err)
		}
		if file == "NOTES.txt" {
			return objects, out.String()
		}
		for text := range strings.SplitSeq(out.String(), "\n---\n") {
			var o Object
			if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, text)
			}
			if len(o) > 0 {
				objects = append(objects, o)
			}
		}
	}
	return nil, ""
}

// helmRender has Helm itself render the chart; nil if its engine is not built.
func helmRender(t *testing.T, values string) (objects []any) {
	t.Helper()
	helm, err := filepath.Abs("../../bin/bundle/helm-template")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(helm); err != nil {
		t.Logf("not compared with Helm's own objects: %v (make bundle-tests)", err)
		return nil
	}

	cmd := exec.Command(helm, chart, "v1.36.3")
	cmd.Stdin = strings.NewReader(values)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, text)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var o Object
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if len(o) > 0 {
			objects = append(objects, map[string]any(o))
		}
	}
	return objects
}

// TestHelmRefuses: Helm takes the chart for the versions of Kubernetes that it is for.
func TestHelmRefuses(t *testing.T) {
	helm := filepath.Join("..", "..", "bin", "bundle", "helm-template")
	if _, err := os.Stat(helm); err != nil {
		t.Skipf("%v (make bundle-tests)", err)
	}
	for version, takes := range map[string]bool{"v1.33.9": false, "v1.34.0": true, "v1.37.0": true} {
		if out, err := exec.Command(helm, chart, version).CombinedOutput(); (err == nil) != takes {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}

// byName is a set of objects.
func byName(objects []any) map[string]any {
	set := map[string]any{}
	for _, o := range objects {
		m := o.(map[string]any)
		set[fmt.Sprint(m["kind"], " ", m["metadata"].(map[string]any)["name"])] = m
	}
	return set
}

// merged returns base with the values of over, map by map.
func merged(base, over map[string]any) map[string]any {
	for key, value := range over {
		if inner, is := value.(map[string]any); is {
			if below, is := base[key].(map[string]any); is {
				value = merged(below, inner)
			}
		}
		base[key] = value
	}
	return base
}

// TestChart: Helm's chart makes the same objects as `porthole manifests`, for each value that both have.
// Row 1.105.
func TestChart(t *testing.T) {
	ranges := Options{Mode: HostGateway, Image: "porthole/node:devel", Pods: "10.244.0.0/16", Services: "10.96.0.0/12"}
	with := func(change func(*Options)) Options {
		o := ranges
		change(&o)
		return o
	}

	const inRanges = "network: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}\n"
	for name, c := range map[string]struct {
		o      Options
		values string
		count  int
	}{
		"defaults": {Options{Mode: HostGateway, Image: "porthole/node:devel"}, "", 6},
		"ranges":   {ranges, inRanges, 10},
		"no daemonset": {with(func(o *Options) { o.NoDaemonSet = true }), inRanges + "linuxRoutes: {enabled: false}",
			6},
		"mode": {with(func(o *Options) { o.Mode = "vxlan" }),
			"network: {mode: vxlan, podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}", 6},
		"two families": {with(func(o *Options) {
			o.Pods, o.Services = "10.244.0.0/16,fd00:10:244::/48", "10.96.0.0/12,fd00:10:96::/112"
		}), `network: {podSubnet: "10.244.0.0/16,fd00:10:244::/48", serviceSubnet: "10.96.0.0/12,fd00:10:96::/112"}`,
			10},
		"nodes": {with(func(o *Options) { o.Nodes = []string{"win01", "win02"} }), inRanges + "nodes: [win01, win02]",
			10},
		"registry": {with(func(o *Options) {
			o.Image, o.PullSecrets = "registry.example.com/team/porthole/node:v1.2.3", []string{"key"}
		}), inRanges + "image: {registry: registry.example.com/team/, tag: v1.2.3, pullSecrets: [key]}", 10},
		"tolerations": {with(func(o *Options) {
			o.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "yes",
				Effect: corev1.TaintEffectNoSchedule}, {Key: "edge", Operator: corev1.TolerationOpExists}}
		}),
			inRanges +
				`linuxRoutes: {tolerations: [{key: gpu, operator: Equal, value: "yes", effect: NoSchedule}, {key: edge, operator: Exists}]}`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.o.Validate(); err != nil {
				t.Fatal(err)
			}
			var ours []any
			for _, o := range Objects(c.o) {
				p, err := plain(o)
				if err != nil {
					t.Fatal(err)
				}
				ours = append(ours, p)
			}
			var theirs []any
			rendered, notes := render(t, c.values)
			for _, o := range rendered {
				theirs = append(theirs, map[string]any(o))
			}
			if diff := cmp.Diff(ours, theirs); diff != "" || len(ours) != c.count {
				t.Errorf("%d objects; ours -, the chart's +:\n%s", len(ours), diff)
			}
			if helms := helmRender(t, c.values); helms != nil {
				if diff := cmp.Diff(byName(ours), byName(helms)); diff != "" {
					t.Errorf("ours -, those that Helm renders +:\n%s", diff)
				}
			}
			if asks := strings.Contains(notes, "Linux nodes have no routes"); asks != (name == "defaults") {
				t.Errorf("the notes are\n%s", notes)
			}
		})
	}
}

// TestPrint: the printed text reads back as the objects.
func TestPrint(t *testing.T) {
	objects := Objects(Options{Mode: HostGateway, Image: "i", Pods: "10.244.0.0/16", Services: "10.96.0.0/12"})
	var out bytes.Buffer
	if err := Print(&out, objects); err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(strings.TrimPrefix(out.String(), "---\n"), "\n---\n")
	if len(texts) != len(objects) {
		t.Fatalf("%d documents of %d objects", len(texts), len(objects))
	}
	for i, text := range texts {
		var read any
		if err := yaml.Unmarshal([]byte(text), &read); err != nil {
			t.Fatal(err)
		}
		want, err := plain(objects[i])
		if diff := cmp.Diff(want, read); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

// api is a cluster as the objects that it has by path.
type api struct {
	objects map[string]Object
	sets    []appsv1.DaemonSet
	down    error
}

func (a api) Object(_ context.Context, path string) ([]byte, error) {
	if o, is := a.objects[path]; is && a.down == nil {
		return json.Marshal(o)
	}
	return nil, a.down
}

func (a api) DaemonSets(context.Context) ([]appsv1.DaemonSet, error) { return a.sets, nil }

// TestCheck: each object that is missing, and each field that differs, is named; what the cluster has beside is not.
func TestCheck(t *testing.T) {
	o := Options{Mode: HostGateway, Image: "i", Pods: "10.244.0.0/16", Services: "10.96.0.0/12"}
	full := func() api {
		a := api{objects: map[string]Object{}}
		for _, object := range Objects(o) {
			path, _ := pathOf(object)
			object["metadata"].(Object)["uid"] = "given by the server"
			a.objects[path] = object
		}
		return a
	}
	check := func(a api) string {
		found, err := Check(t.Context(), a, Objects(o))
		return fmt.Sprint(found, err)
	}
	if got := check(full()); got != "[] <nil>" {
		t.Error(got)
	}
	for _, object := range Objects(o) {
		path, name := pathOf(object)
		a := full()
		delete(a.objects, path)
		if got, want := check(a), "["+name+" is missing: porthole manifests | kubectl apply -f -] <nil>"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}

	a := full()
	a.objects["/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/porthole:node-proxier"]["subjects"] = []Object{
		subject("User", "someone")}
	if got := check(a); !strings.Contains(got,
		`ClusterRoleBinding porthole:node-proxier differs: subjects[0].kind is not "Group"`) {
		t.Error(got)
	}
	a = full()
	a.down = errors.New("refused")
	if got := check(a); !strings.Contains(got, "reading ClusterRoleBinding porthole:node-proxier: refused") ||
		strings.Contains(got, "missing") {
		t.Error(got)
	}
}

// TestWithoutSystem: DaemonSets that also start on Windows nodes.
func TestWithoutSystem(t *testing.T) {
	var sets []appsv1.DaemonSet
	for name, spec := range map[string]string{
		"any":      "{}",
		"linux":    "{nodeSelector: {kubernetes.io/os: linux}}",
		"old":      "{nodeSelector: {beta.kubernetes.io/os: linux}}",
		"affinity": "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}]}}}}",
	} {
		var d appsv1.DaemonSet
		d.Namespace, d.Name = "kube-system", name
		if err := yaml.Unmarshal([]byte(spec), &d.Spec.Template.Spec); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, d)
	}
	found := withoutSystem(sets)
	if len(found) != 1 || !found[0].Warning ||
		!strings.Contains(found[0].String(), "DaemonSet kube-system/any names no operating system") {
		t.Errorf("%v", found)
	}
}

func TestValidate(t *testing.T) {
	for want, o := range map[string]Options{
		"":                        {Mode: HostGateway, Pods: "10.0.0.0/8", Services: "192.168.0.0/16", Image: "i"},
		"is not a range":          {Pods: "10.0.0.0", Services: "192.168.0.0/16"},
		"go together":             {Pods: "10.0.0.0/8"},
		"--image is required":     {Mode: HostGateway, Pods: "10.0.0.0/8", Services: "192.168.0.0/16"},
		"\"fd00\" is not a range": {Pods: "10.0.0.0/8,fd00", Services: "192.168.0.0/16"},
	} {
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	for _, text := range []string{"gpu=yes:NoSchedule", "gpu:NoExecute", "gpu"} {
		if _, err := ParseToleration(text); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", ":NoSchedule", "gpu:Never"} {
		if _, err := ParseToleration(text); err == nil {
			t.Errorf("%q is no toleration", text)
		}
	}
}
