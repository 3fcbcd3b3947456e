package networkapi

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
)

// DistinctEvents returns a sink that loses no event for its name. The recorder names an event by its object and the
// time in nanoseconds (record/util, GenerateEventName), but Windows' clock stands still for up to 15 ms: a second event
// about the object has the name of the first, and the recorder drops what the API server has already.
func DistinctEvents(sink record.EventSink) record.EventSink { return distinctEvents{sink} }

type distinctEvents struct{ record.EventSink }

// Create writes a new event, under another name if another event has its name. The name follows from what the event
// says, so that an event whose first answer was lost is written twice at most.
func (d distinctEvents) Create(e *corev1.Event) (*corev1.Event, error) {
	made, err := d.EventSink.Create(e)
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	says := fnv.New32a()
	fmt.Fprint(says, e.Type, "\x00", e.Reason, "\x00", e.Message)
	other := e.DeepCopy()
	other.Name = fmt.Sprintf("%s.%x", e.Name, says.Sum32())
	return d.EventSink.Create(other)
}
