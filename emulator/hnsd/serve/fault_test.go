package serve

import "testing"

func TestStripped(t *testing.T) {
	got := stripped(`{"ID":"a","PortMappings":[{"Protocol":6}],"Flags":1}`, []string{"portmappings"})
	if got != `{"Flags":1,"ID":"a"}` {
		t.Errorf("got %s", got)
	}
}
