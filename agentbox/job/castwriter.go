package job

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// CastWriter records what a command writes to a pipe as one asciicast v2 file, where there is no box whose
// hub would. Its methods are safe for concurrent use.
type CastWriter struct {
	mu      sync.Mutex
	to      io.Writer
	begun   time.Time
	left    int
	omitted uint64
	carry   []byte
}

// NewCastWriter writes at most limit bytes of output.
func NewCastWriter(to io.Writer, command []string, limit int) *CastWriter {
	begun := time.Now()
	line, _ := json.Marshal(map[string]any{ // of numbers and texts
		"version": 2, "width": 120, "height": 40, "timestamp": begun.Unix(), "idle_time_limit": maxPlayIdle, "command": strings.Join(command, " "),
		"agentbox": map[string]any{"pipe": true},
	})
	_, _ = fmt.Fprintf(to, "%s\n", line) // a disk that is full is seen at the next one
	return &CastWriter{to: to, begun: begun, left: limit}
}

// Write records output that comes now. It always takes all of it: a record is no reason to end a command.
func (c *CastWriter) Write(b []byte) (int, error) { return c.WriteAt(b, time.Now()) }

// WriteAt records output that came at a time.
func (c *CastWriter) WriteAt(b []byte, at time.Time) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, rest := wholeRunes(append(c.carry, b...))
	c.carry = append([]byte(nil), rest...)
	if len(text) == 0 {
		return len(b), nil
	}
	plain := strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\n", "\r\n")
	line, _ := json.Marshal([]any{json.Number(fmt.Sprintf("%.6f", max(at.Sub(c.begun).Seconds(), 0))), "o", plain})
	if len(text) > c.left {
		c.omitted += uint64(len(text))
		return len(b), nil
	}
	c.left -= len(text)
	if _, err := fmt.Fprintf(c.to, "%s\n", line); err != nil {
		c.omitted += uint64(len(text))
	}
	return len(b), nil
}

// Omitted counts the bytes that are not recorded.
func (c *CastWriter) Omitted() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.omitted
}
