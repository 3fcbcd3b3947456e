package probe

import (
	"os"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	missing, err := Run(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Errorf("missing here: %v", missing)
	}

	missing, err = Run(t.Context(), "/nonexistent/nft")
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) != 1 || !strings.Contains(missing[0].Text, "apt-get install nftables") {
		t.Errorf("without nft: %v", missing)
	}
	missing, err = Run(t.Context(), "false")
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) < 5 || !strings.Contains(missing[0].Text, "nft tables") {
		t.Errorf("with an nft that refuses: %v", missing)
	}
}
