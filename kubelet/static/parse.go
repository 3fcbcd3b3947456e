package static

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/strictjson"
	"porthole.dev/porthole/kubelet/pod/desired"
)

// Annotations by which static pods and their mirrors are known. Upstream's kubelet, NodeRestriction and kubectl use
// them.
const (
	HashAnnotation   = "kubernetes.io/config.hash"
	MirrorAnnotation = "kubernetes.io/config.mirror"
	SeenAnnotation   = "kubernetes.io/config.seen"
)

// Origin says where a manifest comes from.
type Origin struct {
	// Kind is "file" or "http".
	Kind string
	// Place is the path or the address.
	Place string
	// Node is the name of this node.
	Node string
}

// maxManifest is the most that is read of one manifest, as upstream's kubelet does: 10 MiB.
const maxManifest = 10 << 20

// Parse reads a manifest, YAML or JSON: one Pod, or from a web address also a PodList. The pods get the defaults that
// the API server would give them, the node's name behind their own, and an identity that depends on all their content.
// unknown names fields that do not exist; they are ignored.
func Parse(data []byte, o Origin) (pods []*v1.Pod, unknown []string, err error) {
	if len(data) > maxManifest {
		return nil, nil, fmt.Errorf("it is larger than %d bytes", maxManifest)
	}

	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, nil, err
	}

	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, nil, fmt.Errorf("it is not an object: %w", err)
	}
	if kind.APIVersion != "v1" || kind.Kind != "Pod" && (kind.Kind != "PodList" || o.Kind == "file") {
		return nil, nil, fmt.Errorf("it is a %q of %q, not a Pod of v1", kind.Kind, kind.APIVersion)
	}

	var list v1.PodList
	target := runtime.Object(&list)
	if kind.Kind == "Pod" {
		list.Items = make([]v1.Pod, 1)
		target = &list.Items[0]
	}

	if unknown, err = strictjson.Unmarshal(text, target); err != nil {
		return nil, nil, err
	}

	for i := range list.Items {
		if err := complete(&list.Items[i], o); err != nil {
			return nil, unknown, err
		}
		pods = append(pods, &list.Items[i])
	}

	return pods, unknown, nil
}

// complete turns what a manifest says into a pod that this node can run.
func complete(p *v1.Pod, o Origin) error {
	if p.Name == "" {
		return errors.New("invalid pod: name is needed for the pod")
	}

	p.Status = v1.PodStatus{}
	p.ResourceVersion = ""
	p.Generation = 0
	p.DeletionTimestamp = nil
	p.DeletionGracePeriodSeconds = nil
	if p.UID == "" { // before the defaults, so that a later version with other defaults finds the same pod
		uid, err := identity(p, o)
		if err != nil {
			return err
		}
		p.UID = uid
	}

	setDefaults(p)
	p.Name += "-" + strings.ToLower(o.Node)
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}

	p.Spec.NodeName = o.Node
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}

	delete(p.Annotations, MirrorAnnotation)
	p.Annotations[HashAnnotation] = string(p.UID)
	p.Annotations[desired.SourceAnnotation] = o.Kind
	if o.Kind == "file" { // so that no problem of the node drives it away
		p.Spec.Tolerations = append(p.Spec.Tolerations,
			v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	}

	p.Status.Phase, p.Status.QOSClass = v1.PodPending, class(p)
	return check(p)
}

// identity is a UID made of everything that the pod is and where it comes from: a manifest that changes is another pod,
// and one that is the same after a restart is the same pod.
func identity(p *v1.Pod, o Origin) (types.UID, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encoding the pod: %w", err)
	}
	h := fnv.New128a()
	_, _ = h.Write(text)
	_, _ = fmt.Fprintf(h, "host:%s%s:%s", o.Node, o.Kind, o.Place)
	return types.UID(hex.EncodeToString(h.Sum(nil))), nil
}

// IsMirror reports whether a pod of the API is the shadow of a static pod.
func IsMirror(p *v1.Pod) bool { _, ok := p.Annotations[MirrorAnnotation]; return ok }
