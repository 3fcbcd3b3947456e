package runtime

// Labels and annotations of sandboxes and containers, with the names that upstream's kubelet uses.
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

	// annResources keeps, as JSON, the resources that a container was created with. They may have been changed since,
	// and the kernel's values do not show them exactly.
	annResources = "porthole.dev/container.resources"
	// annPodLimits keeps, as JSON, the limits that the pod as a whole had then.
	annPodLimits = "porthole.dev/pod.limits"
	// annReset keeps observed.Container.Reset.
	annReset = "porthole.dev/container.reset"
)
