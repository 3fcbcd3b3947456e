package serve

import "k8s.io/apimachinery/pkg/util/uuid"

// newID returns a random GUID.
func newID() string { return string(uuid.NewUUID()) }
