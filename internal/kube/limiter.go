package kube

import (
	"context"

	"k8s.io/client-go/util/flowcontrol"
)

// NewLimiter returns a limit of qps per second on average, of which burst may come at once. It is the token bucket
// with which client-go limits requests. Wait returns once the next one may begin, or ctx's error. It is safe for
// concurrent use.
func NewLimiter(qps float32, burst int) interface {
	Wait(ctx context.Context) error
} {
	return flowcontrol.NewTokenBucketRateLimiter(qps, burst)
}
