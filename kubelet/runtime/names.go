package runtime

// Names that upstream's kubelet gives to labels and annotations of sandboxes and containers.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"

	annHash                   = "io.kubernetes.container.hash"
	annRestartCount           = "io.kubernetes.container.restartCount"
	annTerminationPath        = "io.kubernetes.container.terminationMessagePath"
	annTerminationPolicy      = "io.kubernetes.container.terminationMessagePolicy"
	annPreStop                = "io.kubernetes.container.preStopHandler"
	annPorts                  = "io.kubernetes.container.ports"
	annDeletionGracePeriod    = "io.kubernetes.pod.deletionGracePeriod"
	annTerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"

	// annResources keeps, as JSON, the resources that a container was made with: what they are may have changed since, and
	// the kernel's values do not tell them exactly.
	annResources = "porthole.dev/container.resources"
)
