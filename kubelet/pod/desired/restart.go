package desired

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// IsSidecar reports whether an init container runs beside the containers after it.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// EndsBeforeApps reports whether c is a regular init container: it has to end with exit code 0 before the regular
// containers start.
func EndsBeforeApps(p *v1.Pod, c *v1.Container) bool { return IsInit(p, c.Name) && !IsSidecar(c) }

// Policy returns the restart policy of a container: its own, or that of the pod.
func Policy(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// Restartable reports whether rules and policy let a container that ended with that exit code run again.
func Restartable(pod *v1.Pod, c *v1.Container, code int32) bool {
	if RuledAction(c, code) != "" { // a rule that applies goes before the policy
		return true
	}
	switch Policy(pod, c) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

// MayReset reports whether a container of the pod has a rule that restarts all.
func MayReset(p *v1.Pod) bool {
	for c := range Containers(p) {
		for _, r := range c.RestartPolicyRules {
			if r.Action == v1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// RuledAction returns what the first rule that applies to the exit code asks for: a restart of the container, or of
// all. It is empty if no rule applies. A rule with an unknown action applies to none.
func RuledAction(c *v1.Container, code int32) v1.ContainerRestartRuleAction {
	for i := range c.RestartPolicyRules {
		r := &c.RestartPolicyRules[i]
		known := r.Action == v1.ContainerRestartRuleActionRestart ||
			r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		if known && applies(r, code) {
			return r.Action
		}
	}
	return ""
}

// applies reports whether a rule is about an exit code.
func applies(r *v1.ContainerRestartRule, code int32) bool {
	if r.ExitCodes == nil {
		return false
	}
	named := slices.Contains(r.ExitCodes.Values, code)
	switch r.ExitCodes.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return named
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !named
	}
	return false
}

// Hash returns a hash of what a container must be restarted for if it changes: its name and image. It is upstream's,
// which the annotation io.kubernetes.container.hash holds: a node may change from one kubelet to the other, and its
// containers run on (pkg/kubelet/container, HashContainer, hashes how k8s.io/utils/dump prints a list of bytes; a test
// compares them).
func Hash(c *v1.Container) string {
	text, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) // of texts: no error
	h := fnv.New32a()
	fmt.Fprintf(h, "([]uint8)%v", text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// earlierHash is that of Porthole before its kubelet had upstream's. Containers that it started run on, too.
func earlierHash(c *v1.Container) string {
	text, _ := json.Marshal(struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}{c.Name, c.Image})
	h := fnv.New32a()
	h.Write(text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// Changed reports whether a container that was made with that hash was made from another definition than c. Nothing is
// known of one without a hash: it counts as the same.
func Changed(hash string, c *v1.Container) bool {
	return hash != "" && hash != Hash(c) && hash != earlierHash(c)
}
