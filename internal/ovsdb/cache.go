package ovsdb

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// Cache is a copy of tables that the server keeps up to date while the connection lasts. It is safe for concurrent use.
type Cache struct {
	changed func()

	mu     sync.Mutex
	tables map[string]map[UUID]Row
}

// rowUpdate is a change of one row. Old is nil if the row was inserted, New is nil if it was deleted. New has all
// monitored columns (RFC 7047, section 4.1.6).
type rowUpdate struct {
	Old, New Row
}

type tableUpdates map[string]map[UUID]rowUpdate

// Monitor returns a copy of tables. tables lists the columns of each; an empty list means all columns. changed, which
// may be nil, is called after each update. It runs in the goroutine that reads the connection and must not block.
func (c *Client) Monitor(ctx context.Context, database string, tables map[string][]string, changed func()) (*Cache,
	error) {
	cache := &Cache{changed: changed, tables: map[string]map[UUID]Row{}}
	requests := map[string]any{}
	for table, columns := range tables {
		request := map[string]any{}
		if len(columns) > 0 {
			request["columns"] = columns
		}
		requests[table] = request
		cache.tables[table] = map[UUID]Row{}
	}

	c.mu.Lock()
	id := fmt.Sprintf("monitor%d", len(c.caches)+1)
	c.caches[id] = cache
	c.mu.Unlock()
	// The reader may see an update before the answer is stored below. The lock makes it wait.
	cache.mu.Lock()
	defer cache.mu.Unlock()
	var all tableUpdates
	if err := c.call(ctx, "monitor", []any{database, id, requests}, &all); err != nil {
		return nil, fmt.Errorf("monitoring %s: %w", database, err)
	}
	cache.put(all)
	return cache, nil
}

func (c *Cache) apply(changes tableUpdates) {
	c.mu.Lock()
	c.put(changes)
	c.mu.Unlock()
	if c.changed != nil {
		c.changed()
	}
}

func (c *Cache) put(changes tableUpdates) {
	for table, rows := range changes {
		if c.tables[table] == nil {
			c.tables[table] = map[UUID]Row{}
		}
		for id, r := range rows {
			if r.New == nil {
				delete(c.tables[table], id)
			} else {
				c.tables[table][id] = r.New
			}
		}
	}
}

// Rows returns the rows of a table. The caller must not change them.
func (c *Cache) Rows(table string) map[UUID]Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tables[table])
}

// Tables returns all tables as of one moment. The caller must not change the rows.
func (c *Cache) Tables() map[string]map[UUID]Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[UUID]Row{}
	for name, rows := range c.tables {
		all[name] = maps.Clone(rows)
	}
	return all
}
