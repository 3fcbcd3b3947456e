package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// records is the file with the figures that docs/evidence/bench.md shows, below the repository's root. A newer record
// takes the place of an older one of the same group and name.
const records = "test/bench/records.jsonl"

// record is a line of that file.
// Values are text with their unit, such as "1.25 s".
type record struct {
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Command string `json:"command"`
	Group   string `json:"group"`
	What    string `json:"what"`
	Ours    string `json:"ours"`
	Peer    string `json:"peer,omitempty"`
	PeerIs  string `json:"peerIs,omitempty"`
	Floor   string `json:"floor,omitempty"`
	Target  string `json:"target,omitempty"`
}

// recorder keeps figures. Its zero value keeps none.
type recorder struct {
	machine string // on what is measured, in words
	group   string // that runs now
}

// kept is where print gives figures to.
var kept recorder

// keep adds a figure to the records.
func (k recorder) keep(f figure) error {
	// A figure without a value of ours was skipped and is no record.
	if k.machine == "" || f.Ours == nil {
		return nil
	}
	text := func(v any) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(v, " ", f.Unit)
	}
	r := record{
		Date: time.Now().Format(time.DateOnly), Machine: k.machine, Command: "go run ./test/bench -only " + k.group,
		Group: k.group, What: f.Name, Ours: text(f.Ours), Peer: text(f.Peer), PeerIs: f.PeerIs, Floor: text(f.Floor),
	}
	if f.Target > 0 {
		r.Target = text(f.Target)
	}

	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(records, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
