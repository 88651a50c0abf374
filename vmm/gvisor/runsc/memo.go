package runsc

import (
	"encoding/json"
	"os"

	"agentbox/agentbox/durable"
)

// memo identifies files that were verified: as long as one says the same, the bytes are the same.
type memo struct {
	Files map[string]durable.Identity `json:"files"` // by path
}

// identifyAll looks at files as they are now.
func identifyAll(paths []string) (memo, error) {
	m := memo{Files: map[string]durable.Identity{}}
	for _, path := range paths {
		id, err := durable.Identify(path)
		if err != nil {
			return m, err
		}
		m.Files[path] = id
	}
	return m, nil
}

// holds tells whether all the files are still what was verified.
func (m memo) holds(paths []string) bool {
	for _, path := range paths {
		id, err := durable.Identify(path)
		known, ok := m.Files[path]
		if err != nil || !ok || id != known {
			return false
		}
	}
	return true
}

// readMemo reads what an earlier process verified; what cannot be read was never known.
func readMemo(path string) memo {
	var m memo
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &m) != nil {
		return memo{}
	}
	return m
}
