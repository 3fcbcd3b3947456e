package routes

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// TestRemarks: each remark on the plugin's configuration is logged once, and any process of the host can neither fill
// the memory nor the log.
func TestRemarks(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	k := &ovnKeeper{noted: map[string]bool{}}
	for range 3 {
		k.note(ctx, "ipMasq has no effect")
	}
	for i := range 10_000 {
		k.note(ctx, fmt.Sprintf("%d %s", i, strings.Repeat("ä", 8000)))
	}
	kept := 0
	for remark := range k.noted {
		kept += len(remark)
	}
	text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if len(k.noted) > mostRemarks || kept > mostRemarks*longestRemark || len(text) > 2*mostRemarks*longestRemark {
		t.Errorf("%d remarks with %d bytes are kept, and %d bytes logged", len(k.noted), kept, len(text))
	}
	if n := strings.Count(text, "ipMasq has no effect"); n != 1 || strings.Contains(text, "\ufffd") ||
		strings.Contains(text, `\x`) {
		t.Errorf("the first remark is logged %d times; log:\n%.600s", n, text)
	}
}
