package datapath

import (
	"errors"
	"testing"
)

// TestPathsError: the error of the data path counts the paths that fail, and names each, in one line.
func TestPathsError(t *testing.T) {
	if err := pathsError([]error{nil, nil}); err != nil {
		t.Errorf("of paths that pass: %v", err)
	}
	err := pathsError([]error{errors.New("a to b: 502\n"), nil, errors.New("b to a: timeout")})
	if want := "2 of 3 paths fail: a to b: 502; b to a: timeout"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
