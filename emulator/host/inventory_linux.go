package host

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// detailColumn is where `ctr.exe KIND ls` shows the detail of an item: image, status, digest, parent.
var detailColumn = map[string]int{"containers": 1, "tasks": 2, "images": 2, "snapshots": 1}

// inventoryOfWindows asks containerd.exe by its own client, because its named pipe exists between Windows programs only.
func (h Host) inventoryOfWindows(ctx context.Context, kind string) ([]Item, error) {
	if !slices.Contains(InventoryKinds, kind) {
		return nil, fmt.Errorf("unknown kind %s; known are %v", kind, InventoryKinds)
	}
	out, err := h.output(ctx, runtimeFolder+`\ctr.exe`, "--namespace", "k8s.io", "--connect-timeout", "5s", kind, "ls")
	if err != nil {
		return nil, fmt.Errorf("listing %s of host %s: %w: %s", kind, h.Name, err, out)
	}
	return parseInventory(kind, out), nil
}

// parseInventory reads the table that `ctr.exe KIND ls` prints, whose first line names the columns, and sorts it by id. The list is never
// nil.
func parseInventory(kind, table string) []Item {
	items := []Item{}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		item := Item{ID: fields[0]}
		switch column := detailColumn[kind]; {
		case kind == "snapshots" && len(fields) == 2: // a snapshot without a parent
		case kind == "tasks" && len(fields) > 2:
			item.Detail = fields[2] + " pid " + fields[1]
		case column < len(fields):
			item.Detail = fields[column]
		}
		items = append(items, item)
	}
	sort.Slice(items, func(i, j int) bool { return items[i].ID < items[j].ID })
	return items
}
