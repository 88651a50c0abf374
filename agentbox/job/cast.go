package job

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"agentbox/agentbox/durable"
)

// A transcript is a series of asciicast v2 files, each of which plays alone. output-0.cast has the
// beginning and stays; of the later ones, the last maxParts stay. So a job takes at most headSize
// and maxParts times partSize bytes, whatever it writes.
const (
	// The sizes are in bytes. A part is closed after the line that exceeds its size, so a file is
	// larger by one line at most.
	headSize = 4 << 20
	partSize = 2 << 20
	maxParts = 2 // besides output-0.cast
)

// header is the first line of an asciicast file. Players ignore what they do not know.
type header struct {
	Version   int     `json:"version"`
	Width     int     `json:"width"`
	Height    int     `json:"height"`
	Timestamp int64   `json:"timestamp"`
	Idle      float64 `json:"idle_time_limit"` // a player waits no longer between two events
	Command   string  `json:"command,omitempty"`
	Part      part    `json:"agentbox"`
}

// part says where a file belongs in its transcript. All counts are from the job's start.
type part struct {
	Offset float64 `json:"offset"` // seconds from the job's start to this file's
	From   uint64  `json:"from"`   // bytes of output before it
	Missed uint64  `json:"missed"` // of those, bytes that no file ever had
	Head   uint64  `json:"head"`   // bytes of output that output-0.cast covers, with those it leaves out
	Pipe   bool    `json:"pipe,omitempty"`
}

// recorded is how many bytes of output the files before this one have.
func (p part) recorded() uint64 { return p.From - min(p.Missed, p.From) }

// maxPlayIdle is the longest pause that players show, in seconds.
const maxPlayIdle = 2

// recorder writes a transcript. Where the disk is full it leaves output out, and the job goes on.
// Only the goroutine that follows the job uses it. Every event is one line in one write, so that a
// concurrent reader sees complete lines. Times come from this host's clock and never decrease.
type recorder struct {
	dir string
	rec Record
	now func() time.Time
	position

	// file is nil until there is something to write, and between two parts.
	file       *os.File
	number     int     // of the file
	size       int64   // of the file's complete lines, in bytes
	begun      float64 // when the file was begun, in seconds from the job's start
	last       float64 // the last time that was written, likewise
	unreported uint64  // bytes left out that the transcript does not mention yet
	// the first bytes of an incomplete character, for output and errors each
	carry map[byte][]byte
}

// position is where a recorder is, kept in position.json for the one that continues the job.
type position struct {
	Pos     uint64 `json:"pos"` // bytes of output so far, with those left out
	Head    uint64 `json:"head"`
	Omitted uint64 `json:"left_out"`
	Missed  uint64 `json:"missed"` // of those, bytes that never came to a file
	Columns int    `json:"columns"`
	Rows    int    `json:"rows"`
}

// newRecorder makes the recorder of a job that has written nothing, or of one that resume continues
// next. columns and rows are the size of its first terminal, 0 without one.
func newRecorder(dir string, rec Record, columns, rows int) *recorder {
	return &recorder{dir: dir, rec: rec, position: position{Columns: max(columns, 1), Rows: max(rows, 1)}, now: time.Now, carry: map[byte][]byte{}, number: -1}
}

func partName(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("output-%d.cast", number))
}

// elapsed is the time since the job's start in seconds. It never decreases.
func (r *recorder) elapsed() float64 {
	r.last = max(r.last, r.now().Sub(r.rec.Started).Seconds())
	return r.last
}

// output records what the job wrote. kind is the frame's: output and errors are one stream in a
// transcript, but bytes of both are never joined to one character.
func (r *recorder) output(kind byte, data []byte) {
	text, rest := wholeRunes(append(r.carry[kind], data...))
	if !r.event("o", r.text(text)) {
		r.countOmitted(uint64(len(text)))
	}
	r.carry[kind] = append([]byte(nil), rest...)
	r.Pos += uint64(len(data))
}

// text converts output to what a terminal needs: output of a pipe lacks the carriage returns.
func (r *recorder) text(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	if !r.rec.TTY {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

// skip records that output is missing. to is a position beyond the present one.
func (r *recorder) skip(to uint64) {
	r.countOmitted(to - r.Pos)
	r.Pos = to
}

// countOmitted counts bytes that the transcript will lack; the next event says so first.
func (r *recorder) countOmitted(n uint64) {
	r.Omitted += n
	r.Missed += n
	r.unreported += n
}

// resize records that the terminal has another size from here on.
func (r *recorder) resize(columns, rows int) {
	if columns == r.Columns && rows == r.Rows {
		return
	}
	r.Columns, r.Rows = max(columns, 1), max(rows, 1)
	r.event("r", fmt.Sprintf("%dx%d", r.Columns, r.Rows))
}

// wholeRunes splits off a last character that is incomplete. Bytes that are not UTF-8 count as
// whole, and are replaced later.
func wholeRunes(b []byte) (whole, rest []byte) {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n], b[len(b)-n:]
			}
			break
		}
	}
	return b, nil
}

// event appends one line; false if the disk did not take it. code is asciicast's: "o" for output,
// "r" for a new size.
func (r *recorder) event(code, text string) bool {
	if r.unreported > 0 && text != "" {
		n := r.unreported
		r.unreported = 0
		if !r.event("o", omittedText(n)) {
			r.unreported = n
			return false
		}
	}
	if text == "" || !r.open() {
		return text == ""
	}
	line, err := json.Marshal([]any{json.Number(fmt.Sprintf("%.6f", max(r.elapsed()-r.begun, 0))), code, text})
	return err == nil && r.line(line)
}

// omittedText stands in a transcript in place of output that it lacks.
func omittedText(n uint64) string {
	return fmt.Sprintf("\r\n[agentbox: %d bytes of output left out]\r\n", n)
}

func (r *recorder) line(line []byte) bool {
	// At the end of the last whole line: half a line, from a full disk, is overwritten.
	if _, err := r.file.WriteAt(append(line, '\n'), r.size); err != nil {
		_ = r.file.Truncate(r.size) // what cannot be cut off is overwritten by the next line
		return false
	}
	r.size += int64(len(line)) + 1
	return true
}

// open makes sure that there is a file with room. It tries again at the next event.
func (r *recorder) open() bool {
	// The first part is larger, and the one that stays.
	full := r.file != nil && r.size >= partSize && (r.number > 0 || r.size >= headSize)
	if r.file != nil && !full {
		return true
	}
	if full {
		r.closeFile()
	}
	f, err := os.OpenFile(partName(r.dir, r.number+1), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	// The first part ends here. Every later header says how much it covers, so that a reader knows
	// what lies between.
	if r.number == 0 {
		r.Head = r.Pos
	}
	r.file, r.size, r.begun = f, 0, r.elapsed()
	r.number++
	if !r.line(r.header()) {
		r.file.Close()
		r.file = nil
		r.number--
		return false
	}
	if old := r.number - maxParts; old > 0 {
		r.dropPart(old)
	}
	return true
}

// header is the first line of the part that begins now.
func (r *recorder) header() []byte {
	at := r.now()
	line, _ := json.Marshal(header{ // of numbers and texts
		Version: 2, Width: r.Columns, Height: r.Rows, Timestamp: at.Unix(), Idle: maxPlayIdle, Command: strings.Join(r.rec.Command, " "),
		Part: part{Offset: r.begun, From: r.Pos, Missed: r.Missed, Head: r.Head, Pipe: !r.rec.TTY},
	})
	return line
}

// dropPart removes the oldest part but the first, and counts what is lost with it. Part 0 is never
// dropped: the beginning of a job tells most.
func (r *recorder) dropPart(number int) {
	dropped, err := readHeader(partName(r.dir, number))
	next, nextErr := readHeader(partName(r.dir, number+1))
	if err == nil && nextErr == nil && next.Part.recorded() >= dropped.Part.recorded() {
		r.Omitted += next.Part.recorded() - dropped.Part.recorded() // the reader of the transcript sees that the parts do not meet
	}
	_ = os.Remove(partName(r.dir, number)) // tried again when the job is removed
}

// closeFile closes the part, if there is one.
func (r *recorder) closeFile() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// resume continues where the previous recorder of the job stopped, in a new file.
func (r *recorder) resume() error {
	var p *position
	if err := durable.ReadJSON(filepath.Join(r.dir, positionFile), &p); err != nil || p == nil {
		return err
	}
	r.position = *p
	r.Columns, r.Rows = max(p.Columns, 1), max(p.Rows, 1)
	numbers, err := OpenTranscript(r.dir).parts()
	if len(numbers) > 0 {
		r.number = numbers[len(numbers)-1]
	}
	return err
}

// suspend stops recording a job that goes on, and saves the position for the next recorder, which
// begins a new part.
func (r *recorder) suspend() error {
	if r.number == 0 {
		r.Head = r.Pos
	}
	r.close()
	return writeJSON(filepath.Join(r.dir, positionFile), r.position)
}

func (r *recorder) close() {
	for _, rest := range r.carry {
		r.event("o", r.text(rest))
	}
	r.carry = map[byte][]byte{}
	if r.unreported > 0 {
		n := r.unreported
		r.unreported = 0
		r.event("o", omittedText(n))
	}
	r.closeFile()
}
