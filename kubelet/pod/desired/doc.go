// Package desired answers questions about a pod as its source has it: which containers it has, what ends and restarts
// them, what they ask for, whether they are processes of the host. It reads v1.Pod only and knows nothing of what runs.
//
// Pods are not changed. What an iterator or Find hands out of init and regular containers is a part of the pod; an
// ephemeral container is a copy, because the API has another type for it.
package desired
