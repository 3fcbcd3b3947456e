package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// At returns an error of package json with the line and column of data at which it was found, as ", line 7, column 3:
// …". Columns count bytes from 1. An error without a position is returned as ": …".
func At(data []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &wrong):
		offset = wrong.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return fmt.Errorf(": %w", err)
	}

	before := data[:max(0, offset-1)] // the offset is that behind the byte in question
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf(", line %d, column %d: %w", line, column, err)
}
