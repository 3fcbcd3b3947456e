package networkapi

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// TestDistinctEvents: two events of one object and one moment are both written, and one that is written again is not
// there a third time.
func TestDistinctEvents(t *testing.T) {
	client := fake.NewClientset()
	sink := DistinctEvents(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	for _, message := range []string{"first", "second", "second"} {
		_, _ = sink.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "win02.18ec7d1f9d6e9ee0"}, Message: message})
	}
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		got = append(got, e.Message)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("events %q", got)
	}
}
