package effect

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Guarded runs a part of a pod's work that is outside of its actor. A panic in it is an error of this pod.
func Guarded(ctx context.Context, uid types.UID, what string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error in %s: %v", what, r)
			klog.FromContext(ctx).Error(err, "Pod task panicked; other pods go on", "pod", uid, "stack",
				string(debug.Stack()))
		}
	}()
	return do()
}
