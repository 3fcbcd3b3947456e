// Package env works out the environment, the command and the arguments of a container. It is pure: it reads API objects
// through functions that the caller passes.
package env

import (
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrNotFound is the error that look-ups wrap if the object is known to be absent. Other errors mean: unknown.
var ErrNotFound = errors.New("not found")

// Var is one variable.
type Var struct{ Name, Value string }

// Inputs are what the references in a container's spec may point at.
type Inputs struct {
	Pod       *v1.Pod
	Container *v1.Container
	// PodIPs and HostIPs are the addresses as known now; the pod's status may lag behind.
	PodIPs, HostIPs []string
	NodeAllocatable v1.ResourceList
	// Services are those of the pod's namespace, and `kubernetes` of the default one.
	Services []*v1.Service
	// ConfigMap and Secret read an object of the pod's namespace.
	ConfigMap func(name string) (*v1.ConfigMap, error)
	Secret    func(name string) (*v1.Secret, error)
	// File reads a file of a volume of the pod.
	File func(volume, path string) (string, error)
}

// Container returns the environment in order. A later value replaces an earlier one of the same name at its place.
func Container(in Inputs) ([]Var, error) {
	vars := newList()
	service := newList()
	for _, v := range Services(in.Pod, in.Services) {
		service.set(v.Name, v.Value)
	}
	if err := fromSources(in, vars); err != nil {
		return nil, err
	}
	known := func(name string) (string, bool) {
		if v, ok := vars.get(name); ok {
			return v, true
		}
		return service.get(name)
	}

	for _, e := range in.Container.Env {
		value := e.Value
		if e.ValueFrom == nil {
			vars.set(e.Name, Expand(value, known))
			continue
		}
		value, ok, err := fromRef(in, e.Name, e.ValueFrom)
		if err != nil {
			return nil, err
		}
		if ok {
			vars.set(e.Name, value)
		}
	}

	for _, v := range service.vars {
		if _, ok := vars.get(v.Name); !ok {
			vars.set(v.Name, v.Value)
		}
	}
	return vars.vars, nil
}

// list is a list of variables with unique names.
type list struct {
	vars []Var
	at   map[string]int
}

func newList() *list { return &list{at: map[string]int{}} }

func (l *list) set(name, value string) {
	if i, ok := l.at[name]; ok {
		l.vars[i].Value = value
		return
	}
	l.at[name] = len(l.vars)
	l.vars = append(l.vars, Var{name, value})
}

func (l *list) get(name string) (string, bool) {
	i, ok := l.at[name]
	if !ok {
		return "", false
	}
	return l.vars[i].Value, true
}

// fromSources adds what the container's envFrom names.
func fromSources(in Inputs, vars *list) error {
	for _, src := range in.Container.EnvFrom {
		switch {
		case src.ConfigMapRef != nil:
			cm, err := in.ConfigMap(src.ConfigMapRef.Name)
			if optional(src.ConfigMapRef.Optional) && errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			for _, k := range sortedKeys(cm.Data) {
				vars.set(src.Prefix+k, cm.Data[k])
			}

		case src.SecretRef != nil:
			s, err := in.Secret(src.SecretRef.Name)
			if optional(src.SecretRef.Optional) && errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			for _, k := range sortedKeys(s.Data) {
				vars.set(src.Prefix+k, string(s.Data[k]))
			}
		}
	}
	return nil
}

func optional(o *bool) bool { return o != nil && *o }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// fromRef reads the value that the variable of a name refers to. ok is false if the reference is optional and its
// object is absent.
func fromRef(in Inputs, name string, src *v1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case src.FieldRef != nil:
		value, err = Field(in.Pod, src.FieldRef.FieldPath, in.PodIPs, in.HostIPs)
		return value, err == nil, err
	case src.ResourceFieldRef != nil:
		value, err = ResourceField(in.Pod, in.Container, src.ResourceFieldRef, in.NodeAllocatable)
		return value, err == nil, err

	case src.ConfigMapKeyRef != nil:
		ref := src.ConfigMapKeyRef
		cm, err := in.ConfigMap(ref.Name)
		if err == nil {
			if v, found := cm.Data[ref.Key]; found {
				return v, true, nil
			}
			err = fmt.Errorf("couldn't find key %v in ConfigMap %v/%v: %w", ref.Key, in.Pod.Namespace, ref.Name,
				ErrNotFound)
		}
		if optional(ref.Optional) && errors.Is(err, ErrNotFound) {
			return "", false, nil
		}
		return "", false, err

	case src.SecretKeyRef != nil:
		ref := src.SecretKeyRef
		s, err := in.Secret(ref.Name)
		if err == nil {
			if v, found := s.Data[ref.Key]; found {
				return string(v), true, nil
			}
			err = fmt.Errorf("couldn't find key %v in Secret %v/%v: %w", ref.Key, in.Pod.Namespace, ref.Name,
				ErrNotFound)
		}
		if optional(ref.Optional) && errors.Is(err, ErrNotFound) {
			return "", false, nil
		}
		return "", false, err

	case src.FileKeyRef != nil:
		return fromFile(in, name, src.FileKeyRef)
	}
	return "", false, nil
}

// fromFile reads the value of a variable from a file of a volume. The API allows only volumes of type emptyDir.
func fromFile(in Inputs, name string, ref *v1.FileKeySelector) (value string, ok bool, err error) {
	text, err := in.File(ref.VolumeName, ref.Path)
	if err == nil {
		value, ok, err = InFile(text, ref.Key)
	}
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return "", false, fmt.Errorf("reading the variable %s of file %q of volume %q: %w", name, ref.Path,
			ref.VolumeName, err)
	case !ok && !optional(ref.Optional):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, ok, nil
}

// Field reads a field of a pod that the downward API offers to the environment.
func Field(p *v1.Pod, path string, podIPs, hostIPs []string) (string, error) {
	first := func(list []string, other string) string {
		if len(list) > 0 {
			return list[0]
		}
		return other
	}
	switch path {
	case "status.hostIP":
		return first(hostIPs, p.Status.HostIP), nil
	case "status.hostIPs":
		return strings.Join(hostIPs, ","), nil
	case "status.podIP":
		return first(podIPs, p.Status.PodIP), nil
	case "status.podIPs":
		return strings.Join(podIPs, ","), nil
	}
	return Metadata(p, path)
}

// Metadata reads a field that does not depend on the pod's status. Downward API volumes offer these fields too.
func Metadata(p *v1.Pod, path string) (string, error) {
	if field, key, ok := subscript(path); ok {
		switch field {
		case "metadata.annotations":
			if errs := validation.IsQualifiedName(strings.ToLower(key)); len(errs) > 0 {
				return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(errs, ";"))
			}
			return p.Annotations[key], nil
		case "metadata.labels":
			if errs := validation.IsQualifiedName(key); len(errs) > 0 {
				return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(errs, ";"))
			}
			return p.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}

	switch path {
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "metadata.labels":
		return formatMap(p.Labels), nil
	case "metadata.annotations":
		return formatMap(p.Annotations), nil
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", path)
}

// subscript splits "field['key']".
func subscript(path string) (field, key string, ok bool) {
	field, rest, found := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(rest, "']")
	return field, key, found && closed && field != ""
}

func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, k := range sortedKeys(m) {
		lines = append(lines, k+"="+strconv.Quote(m[k]))
	}
	return strings.Join(lines, "\n")
}

// ResourceField reads a request or limit, divided by the reference's divisor and rounded up. If a limit of CPU, memory
// or ephemeral storage is not set, the pod's own limit counts, or else what the node has allocatable. own is the
// container that a reference without a container name means.
func ResourceField(p *v1.Pod, own *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string,
	error) {
	c := own
	if ref.ContainerName != "" && (c == nil || ref.ContainerName != c.Name) {
		c = nil
		for _, l := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
			for i := range l {
				if l[i].Name == ref.ContainerName {
					c = &l[i]
				}
			}
		}
	}
	if c == nil {
		return "", fmt.Errorf("container %s not found", ref.ContainerName)
	}

	kind, text, ok := strings.Cut(ref.Resource, ".")
	name := v1.ResourceName(text)
	if !ok || kind != "limits" && kind != "requests" ||
		!defaulted(name) && !strings.HasPrefix(text, v1.ResourceHugePagesPrefix) {
		return "", fmt.Errorf("unsupported container resource : %s", ref.Resource)
	}

	q := c.Resources.Requests[name]
	if kind == "limits" {
		q = limit(p, c, name, allocatable)
	}

	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount, unit := q.Value(), divisor.Value()
	if name == v1.ResourceCPU {
		amount = q.MilliValue()
		unit = divisor.MilliValue()
	}
	if unit <= 0 {
		return "", fmt.Errorf("divisor %s of %s is not positive", divisor.String(), ref.Resource)
	}

	n := amount / unit
	if amount%unit > 0 {
		n++
	}
	return strconv.FormatInt(n, 10), nil
}

// defaulted reports whether a limit that is not set means the pod's or the node's. Huge pages are never overcommitted,
// so their limit is always set.
func defaulted(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
}

func limit(p *v1.Pod, c *v1.Container, name v1.ResourceName, allocatable v1.ResourceList) resource.Quantity {
	if q := c.Resources.Limits[name]; !q.IsZero() || !defaulted(name) {
		return q
	}
	node, known := allocatable[name]
	if whole := p.Spec.Resources; known && whole != nil {
		if q := whole.Limits[name]; !q.IsZero() {
			return q
		}
	}
	return node
}

// Expand replaces $(NAME) by its value and $$ by a dollar sign. A name that is not known stays as it is written.
func Expand(text string, known func(string) (string, bool)) string {
	var b strings.Builder
	last := strings.LastIndexByte(text, ')') // no name ends behind it
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}

		switch text[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			if i > last {
				b.WriteString("$(")
				i++
				continue
			}
			end := strings.IndexByte(text[i+2:], ')')
			name := text[i+2 : i+2+end]
			if v, ok := known(name); ok {
				b.WriteString(v)
			} else {
				b.WriteString("$(" + name + ")")
			}
			i += 2 + end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// ExpandStrict is Expand for texts in which every name must be known. The error names the first that is not.
func ExpandStrict(text string, known func(string) (string, bool)) (string, error) {
	missing := ""
	out := Expand(text, func(name string) (string, bool) {
		v, ok := known(name)
		if !ok && missing == "" {
			missing = name
		}
		return v, ok
	})
	if missing != "" {
		return "", fmt.Errorf("missing value for %q", missing)
	}
	return out, nil
}

// ExpandAll expands a command line with the variables of the container.
func ExpandAll(words []string, vars []Var) []string {
	if words == nil {
		return nil
	}
	values := map[string]string{}
	for _, v := range vars {
		values[v.Name] = v.Value
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = Expand(w, func(n string) (string, bool) { v, ok := values[n]; return v, ok })
	}
	return out
}

// Services returns the service variables of a pod.
func Services(p *v1.Pod, services []*v1.Service) []Var {
	links := p.Spec.EnableServiceLinks == nil || *p.Spec.EnableServiceLinks
	var mine []*v1.Service
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		master := s.Namespace == "default" && s.Name == "kubernetes"
		if master || links && s.Namespace == p.Namespace {
			mine = append(mine, s)
		}
	}

	sort.Slice(mine, func(i, j int) bool { return mine[i].Namespace+mine[i].Name < mine[j].Namespace+mine[j].Name })
	var out []Var
	for _, s := range mine {
		out = append(out, serviceVars(s)...)
	}
	return out
}

// serviceVars returns the variables of one service: NAME_SERVICE_HOST and NAME_SERVICE_PORT for its first port, and
// after them the names that Docker gave to linked containers, which Kubernetes has kept. The service has a cluster IP
// and at least one port.
func serviceVars(s *v1.Service) []Var {
	name := func(t string) string { return strings.ToUpper(strings.ReplaceAll(t, "-", "_")) }
	x, ip := name(s.Name), s.Spec.ClusterIP
	out := []Var{{x + "_SERVICE_HOST", ip}, {x + "_SERVICE_PORT", strconv.Itoa(int(s.Spec.Ports[0].Port))}}
	for _, p := range s.Spec.Ports {
		if p.Name != "" {
			out = append(out, Var{x + "_SERVICE_PORT_" + name(p.Name), strconv.Itoa(int(p.Port))})
		}
	}

	for i, p := range s.Spec.Ports {
		proto := "tcp"
		if p.Protocol != "" {
			proto = strings.ToLower(string(p.Protocol))
		}
		port := strconv.Itoa(int(p.Port))
		url := proto + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			out = append(out, Var{x + "_PORT", url})
		}
		prefix := x + "_PORT_" + port + "_" + strings.ToUpper(proto)
		out = append(out, Var{prefix, url}, Var{prefix + "_PROTO", proto}, Var{prefix + "_PORT", port},
			Var{prefix + "_ADDR", ip})
	}
	return out
}
