package check

import "strings"

// answers accepts the outcomes of a call that a runtime need not implement.
var answers = oneOf("ok", "Unimplemented")

// runtimeFacts are what we assume of the container runtime.
var runtimeFacts = []Fact{
	{Number: 2, Line: "hostprocess.container-only", Fact: "Is a HostProcess container in a sandbox without it refused?",
		Assume: "refused: the kubelet derives the sandbox's from the containers",
		Source: "containerd `internal/cri/server/container_create.go`",
		holds:  oneOf("refused"), Changes: true},
	{Number: 3, Line: "dial.npipe:////./pipe/", Fact: "Does the runtime answer at its pipe, spelt with four slashes?",
		Assume: "yes",
		Source: "upstream cri-client `pkg/util/util_windows.go`", holds: oneOf("ok")},
	{Number: 3, Line: "dial.npipe://./pipe/", Fact: "With two?", Assume: "yes",
		Source: "kubernetes.io Container Runtimes", holds: oneOf("ok")},
	{Number: 3, Line: "dial.npipe:///pipe/", Fact: "With three?", Assume: "yes", Source: "as above",
		holds: oneOf("ok")},
	{Number: 3, Line: `dial.npipe:\\.\pipe\`, Fact: "With backslashes?", Assume: "yes", Source: "as above",
		holds: oneOf("ok")},
	{Number: 12, Line: "call.ListPodSandboxStats", Fact: "Can statistics of all sandboxes be listed in one call?",
		Assume: "yes, Unimplemented, or Unknown while a sandbox has none",
		Source: "containerd 1.6 lacks it", holds: func(v string) bool { return answers(v) || v == "Unknown" }},
	{Number: 12, Line: "stats.failures", Fact: "How many of 20 such calls fail while a sandbox comes and goes?",
		Assume: "nothing: if the list fails, each sandbox is asked by itself",
		Source: "kubernetes/kubernetes#98509; containerd/containerd#6436", holds: anything, Changes: true},
	{Number: 45, Line: "call.GetContainerEvents", Fact: "Does the runtime send events?",
		Assume: "yes, or Unimplemented: then it is polled",
		Source: "containerd before 1.7 does not", holds: answers},
	{Number: 46, Line: "call.ListMetricDescriptors", Fact: "Does it list the names of its metrics?",
		Assume: "yes, or Unimplemented", Source: "`kubelet/runtime`", holds: answers},
	{Number: 47, Line: "exit.code", Fact: "Which exit code has a program that ends with 300?", Assume: "300",
		Source: "CRI: exit_code has 32 bits",
		holds:  oneOf("300"), Changes: true},
	{Number: 48, Line: "exit.seconds", Fact: "How long after the start of a program that ends at once is its end seen?",
		Assume: "at most 10 s", Source: "containerd `core/runtime/v2/shim_windows.go`: 5 s", holds: atMost(10),
		Changes: true},
	{Number: 42, Line: "log.rename", Fact: "Can the log of a running container be renamed?", Assume: "yes",
		Source: "`kubelet/logs`: rotation",
		holds:  oneOf("ok"), Changes: true},
	{Number: 19, Line: "sandbox.address", Fact: "Does the runtime report the address of a pod?", Assume: "yes",
		Source: "`kubelet`",
		holds:  func(v string) bool { return strings.ContainsAny(v, ".:") }, Changes: true},
}
