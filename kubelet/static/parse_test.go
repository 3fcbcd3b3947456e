package static

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

var here = Origin{Kind: "file", Place: "/etc/manifests/web.yaml", Node: "Node1"}

const web = `
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  hostNetwork: true
  containers:
  - name: app
    image: registry.example:5000/web
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 100m, memory: 10Mi}}
    readinessProbe: {httpGet: {port: 80}}
  volumes:
  - name: scratch
`

func parseOne(t *testing.T, text string, o Origin) *v1.Pod {
	t.Helper()
	pods, unknown, err := Parse([]byte(text), o)
	if err != nil || len(pods) != 1 || len(unknown) != 0 {
		t.Fatalf("pods %d, unknown fields %v, error %v", len(pods), unknown, err)
	}
	return pods[0]
}

// TestParseCompletes holds a small manifest to what the API server makes of the same pod.
func TestParseCompletes(t *testing.T) {
	p := parseOne(t, web, here)
	c := p.Spec.Containers[0]
	for what, ok := range map[string]bool{
		"name and namespace": p.Name == "web-node1" && p.Namespace == "default" && p.Spec.NodeName == "Node1",
		"hash is the UID": len(p.UID) == 32 && p.Annotations[HashAnnotation] == string(p.UID) &&
			p.Annotations[desired.SourceAnnotation] == "file",
		"restart and DNS policy": p.Spec.RestartPolicy == v1.RestartPolicyAlways &&
			p.Spec.DNSPolicy == v1.DNSClusterFirst,
		"grace period":  *p.Spec.TerminationGracePeriodSeconds == 30,
		"service links": *p.Spec.EnableServiceLinks,
		"host port":     c.Ports[0].HostPort == 80 && c.Ports[0].Protocol == v1.ProtocolTCP,
		"pull policy":   c.ImagePullPolicy == v1.PullAlways,
		"termination message": c.TerminationMessagePath == "/dev/termination-log" &&
			c.TerminationMessagePolicy == v1.TerminationMessageReadFile,
		"requests from limits": c.Resources.Requests.Cpu().MilliValue() == 100,
		"class":                p.Status.QOSClass == v1.PodQOSGuaranteed,
		"probe": c.ReadinessProbe.PeriodSeconds == 10 && c.ReadinessProbe.HTTPGet.Path == "/" &&
			c.ReadinessProbe.FailureThreshold == 3,
		"empty volume": p.Spec.Volumes[0].EmptyDir != nil,
		"tolerates NoExecute": len(p.Spec.Tolerations) == 1 &&
			p.Spec.Tolerations[0].Effect == v1.TaintEffectNoExecute &&
			p.Spec.Tolerations[0].Operator == v1.TolerationOpExists,
		"static, not a mirror": desired.IsStatic(p) && !IsMirror(p),
	} {

		if !ok {
			t.Errorf("%s: %+v", what, p)
		}
	}
}

// TestIdentity: the same file is the same pod, and what differs in content, place or node is another.
func TestIdentity(t *testing.T) {
	same := parseOne(t, web, here).UID
	if again := parseOne(t, web, here).UID; again != same {
		t.Errorf("the same manifest has two UIDs: %s and %s", same, again)
	}
	other, moved := here, here
	other.Node, moved.Place = "node2", "/etc/manifests/copy.yaml"
	for what, uid := range map[string]string{
		"content": string(parseOne(t, strings.Replace(web, "100m", "200m", 1), here).UID),
		"node":    string(parseOne(t, web, other).UID),
		"place":   string(parseOne(t, web, moved).UID),
	} {
		if uid == string(same) {
			t.Errorf("another %s gives the same UID", what)
		}
	}
	if p := parseOne(t, strings.Replace(web, "name: web", "name: web\n  uid: mine", 1), here); p.UID != "mine" ||
		p.Annotations[HashAnnotation] != "mine" {
		t.Errorf("the manifest's own UID was not kept: %s", p.UID)
	}
}

func TestParseRefuses(t *testing.T) {
	spec := func(extra string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: a:1}]\n" + extra
	}

	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "a: [", "yaml"},
		{"a number", "7", "it is not an object"},
		{"another kind", "apiVersion: apps/v1\nkind: Deployment\n",
			`it is a "Deployment" of "apps/v1", not a Pod of v1`},
		{"a list in a file", "apiVersion: v1\nkind: PodList\n", `it is a "PodList" of "v1", not a Pod of v1`},
		{"no name", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: a:1}]}",
			"invalid pod: name is needed for the pod"},
		{"bad name", strings.Replace(spec(""), "name: a}", "name: ../a}", 1), "metadata.name: Invalid value"},
		{"bad namespace", strings.Replace(spec(""), "name: a}", "name: a, namespace: ../b}", 1),
			"metadata.namespace: Invalid value"},
		{"bad UID", strings.Replace(spec(""), "name: a}", "name: a, uid: ../../etc}", 1),
			"metadata.uid: Invalid value"},
		{"no containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "spec.containers: Required value"},
		{"container name", strings.Replace(spec(""), "name: a, image", "name: ../a, image", 1),
			"spec.containers[0].name: Invalid value"},
		{"image", strings.Replace(spec(""), "image: a:1", "image: ''", 1), "spec.containers[0].image: Required value"},
		{"two of a name", spec("  initContainers: [{name: a, image: b}]\n"), "name: Duplicate value"},
		{"restart policy", spec("  restartPolicy: Sometimes\n"), "spec.restartPolicy: Unsupported value"},
		{"mount of nothing", strings.Replace(spec(""), "image: a:1",
			"image: a:1, volumeMounts: [{name: x, mountPath: /x}]", 1), `volumeMounts[0].name: Not found: "x"`},
		{"wrong type", spec("  hostNetwork: 3\n"), "hostNetwork"},
		{"negative limit", strings.Replace(spec(""), "image: a:1", "image: a:1, resources: {limits: {cpu: '-1'}}", 1),
			"must be greater than or equal to 0"},
		{"secret volume", spec("  volumes: [{name: s, secret: {secretName: s}}]\n"),
			"static pods may not reference secrets (via secret volumes)"},
		{"config map", spec("  volumes: [{name: s, configMap: {name: s}}]\n"),
			"static pods may not reference configmaps (via configmap volumes)"},
		{"token", spec("  volumes: [{name: s, projected: {sources: [{serviceAccountToken: {path: t}}]}}]\n"),
			"serviceaccounts (via projected volumes)"},
		{"service account", spec("  serviceAccountName: s\n"), "static pods may not reference serviceaccounts"},
		{"claim", spec("  volumes: [{name: s, persistentVolumeClaim: {claimName: s}}]\n"),
			"static pods may not reference persistentvolumeclaims"},
		{"pull secret", spec("  imagePullSecrets: [{name: s}]\n"), "static pods may not reference secrets"},
		{"environment", strings.Replace(spec(""), "image: a:1", "image: a:1, envFrom: [{configMapRef: {name: s}}]", 1),
			"static pods may not reference configmaps"},
	} {

		pods, _, err := Parse([]byte(c.text), here)
		if err == nil || !strings.Contains(err.Error(), c.want) || pods != nil {
			t.Errorf("%s: pods %v, error %v, want %q", c.name, pods, err, c.want)
		}
	}
}

func TestParseNamesUnknownFields(t *testing.T) {
	_, unknown, err := Parse([]byte(strings.Replace(web, "hostNetwork: true", "hostNetwrk: true", 1)), here)
	if err != nil || len(unknown) != 1 || !strings.Contains(unknown[0], "spec.hostNetwrk") {
		t.Errorf("unknown fields %v, error %v", unknown, err)
	}
}

func TestParseList(t *testing.T) {
	text := `{"apiVersion":"v1","kind":"PodList","items":[
		{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a:1"}]}},
		{"metadata":{"name":"b"},"spec":{"containers":[{"name":"b","image":"b:1"}]}}]}`
	pods, _, err := Parse([]byte(text), Origin{Kind: "http", Place: "http://x/", Node: "n"})
	if err != nil || len(pods) != 2 || pods[0].Name != "a-n" || pods[1].Name != "b-n" || pods[0].UID == pods[1].UID {
		t.Errorf("pods %v, error %v", pods, err)
	}
	if len(pods[0].Spec.Tolerations) != 0 {
		t.Errorf("a pod of a web address tolerates what only one of a file does: %v", pods[0].Spec.Tolerations)
	}
}

func TestClass(t *testing.T) {
	for text, want := range map[string]v1.PodQOSClass{
		"{}":                              v1.PodQOSBestEffort,
		"{requests: {cpu: 1}}":            v1.PodQOSBurstable,
		"{limits: {cpu: 1}}":              v1.PodQOSBurstable,
		"{limits: {cpu: 1, memory: 1Gi}}": v1.PodQOSGuaranteed,
		"{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1}}":          v1.PodQOSGuaranteed,
		"{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}":       v1.PodQOSBurstable,
		"{limits: {example.com/x: 1}, requests: {example.com/x: 1}}":   v1.PodQOSBestEffort,
		"{requests: {memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}":     v1.PodQOSGuaranteed,
		"{limits: {cpu: 0, memory: 0}, requests: {cpu: 0, memory: 0}}": v1.PodQOSBestEffort,
	} {
		p := parseOne(t,
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a, resources: "+text+
				"}]}", here)
		if p.Status.QOSClass != want {
			t.Errorf("%s: %s, want %s", text, p.Status.QOSClass, want)
		}
	}
}

// FuzzParse: whatever a file holds, it gives an error or pods whose names cannot leave their folders.
func FuzzParse(f *testing.F) {
	f.Add([]byte(web))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: ..}\nspec: {containers: [{name: a, image: a}]}"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":null,"spec":{"containers":[null]}}`))
	f.Add([]byte("a: &a [*a]"))
	f.Add(
		[]byte(
			`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}],"volumes":[{"name":"../v"}],"initContainers":[{}]}}]}`))
	fetched := Origin{Kind: "http", Place: here.Place, Node: here.Node}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, from := range []Origin{here, fetched} {
			pods, unknown, err := Parse(data, from)
			if err != nil && pods != nil || from == here && len(pods) > 1 {
				t.Fatalf("%d pods and the error %v", len(pods), err)
			}
			again, _, _ := Parse(data, from)
			if !reflect.DeepEqual(pods, again) { // else it would be another pod after each restart
				t.Fatalf("read twice: %+v and %+v, unknown %q", pods, again, unknown)
			}
			for _, p := range pods {
				checkPod(t, p)
			}
		}
	})
}

func checkPod(t *testing.T, p *v1.Pod) {
	t.Helper()
	names := []string{p.Name, p.Namespace, string(p.UID)}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		names = append(names, c.Name)
	}
	for _, v := range p.Spec.Volumes {
		names = append(names, v.Name)
	}
	for _, name := range names {
		if name == "" || filepath.Base(name) != name || name == ".." || strings.ContainsAny(name, `\/`) {
			t.Fatalf("the name %q is not safe", name)
		}
	}
	if len(p.Spec.Containers) == 0 || *p.Spec.TerminationGracePeriodSeconds < 0 || p.Spec.NodeName != here.Node ||
		!desired.IsStatic(p) || IsMirror(p) || p.DeletionTimestamp != nil {
		t.Fatalf("%+v", p)
	}
}
