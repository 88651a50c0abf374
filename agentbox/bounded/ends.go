package bounded

import "fmt"

// Ends keeps the beginning and the end of what is written to it: at most Limit bytes in all.
type Ends struct {
	Limit      int
	head, tail []byte
	at         int // where the next byte of a full tail goes
	total      int64
}

// Write implements io.Writer. It never fails.
func (e *Ends) Write(p []byte) (int, error) {
	n := len(p)
	e.total += int64(n)
	room := min(len(p), e.Limit/2-len(e.head))
	e.head, p = append(e.head, p[:room]...), p[room:]
	most := e.Limit - e.Limit/2
	if len(p) > most {
		p = p[len(p)-most:]
	}
	room = min(len(p), most-len(e.tail))
	e.tail, p = append(e.tail, p[:room]...), p[room:]
	for len(p) > 0 {
		k := copy(e.tail[e.at:], p)
		p, e.at = p[k:], (e.at+k)%most
	}
	return n, nil
}

// Dropped counts the bytes that were written and are not kept.
func (e *Ends) Dropped() int64 { return e.total - int64(len(e.head)+len(e.tail)) }

// Bytes returns what is kept, with a line between beginning and end if something is missing there.
func (e *Ends) Bytes() []byte {
	out := append([]byte{}, e.head...)
	if n := e.Dropped(); n > 0 {
		out = fmt.Appendf(out, "\n[... %d bytes are not shown ...]\n", n)
	}
	out = append(out, e.tail[e.at:]...)
	return append(out, e.tail[:e.at]...)
}
