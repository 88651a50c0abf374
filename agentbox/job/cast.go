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

// A transcript is a row of asciicast v2 files, each of which plays alone: output-0.cast has the
// beginning and stays, the later ones follow, of which the last two stay. So a job keeps at most
// headSize and two times partSize bytes, whatever it writes.
const (
	// Both in bytes. A part is closed after the line that passes its size, so files are larger by a
	// line at most.
	headSize = 4 << 20
	partSize = 2 << 20
	maxParts = 2
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
	Head   uint64  `json:"head"`   // bytes of output in output-0.cast, and left out in it
	Pipe   bool    `json:"pipe,omitempty"`
}

// held is how many bytes of output files before this one have had.
func (p part) held() uint64 { return p.From - min(p.Missed, p.From) }

// playIdle is for how long players show that nothing happens. In seconds.
const playIdle = 2

// recorder writes a transcript. Where the disk does not take it, output is left out and the job
// goes on. It is used by one goroutine, the one that follows the job. Every event is one line,
// written as a whole, so a reader beside it sees whole lines. Times are those of this host's clock
// and only grow.
type recorder struct {
	dir string
	rec Record
	now func() time.Time
	position

	// nil until there is something to write, and between two parts
	file   *os.File
	number int   // of the file
	size   int64 // of the file, of whole lines
	begun  float64
	last   float64
	unsaid uint64 // of those that never came to a file, bytes that the transcript does not say are left out
	// the first bytes of a character whose rest has not come, for output and errors each
	carry map[byte][]byte
}

// position is where a recorder is, and where one left off for the next one of the same job: it is
// position.json.
type position struct {
	Pos     uint64 `json:"pos"` // bytes of output that came, or were left out
	Head    uint64 `json:"head"`
	LeftOut uint64 `json:"left_out"`
	Missed  uint64 `json:"missed"` // of those, bytes that never came to a file
	Columns int    `json:"columns"`
	Rows    int    `json:"rows"`
}

// newRecorder is for a job that has written nothing, or whose goOn is called next. columns and rows
// are of its first terminal; one without has 0.
func newRecorder(dir string, rec Record, columns, rows int) *recorder {
	return &recorder{dir: dir, rec: rec, position: position{Columns: max(columns, 1), Rows: max(rows, 1)}, now: time.Now, carry: map[byte][]byte{}, number: -1}
}

// partName is the file of a part, from 0.
func partName(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("output-%d.cast", number))
}

// elapsed is the time since the job's start, which never goes back.
func (r *recorder) elapsed() float64 {
	r.last = max(r.last, r.now().Sub(r.rec.Started).Seconds())
	return r.last
}

// output records what the job wrote. kind is that of the frame: output and errors are one stream in
// a transcript, but a character is never put together of both.
func (r *recorder) output(kind byte, data []byte) {
	text, rest := wholeRunes(append(r.carry[kind], data...))
	if !r.event("o", r.text(text)) {
		r.leaveOut(uint64(len(text)))
	}
	r.carry[kind] = append([]byte(nil), rest...)
	r.Pos += uint64(len(data))
}

// text is output as a terminal needs it: what goes into a pipe has no carriage returns of a
// terminal's.
func (r *recorder) text(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	if !r.rec.TTY {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

// skip records that output is missing. to is a position beyond the present one.
func (r *recorder) skip(to uint64) {
	r.leaveOut(to - r.Pos)
	r.Pos = to
}

// leaveOut counts bytes that the transcript will not have; the next event says so first.
func (r *recorder) leaveOut(n uint64) {
	r.LeftOut += n
	r.Missed += n
	r.unsaid += n
}

// resize says that the terminal has another size from here on.
func (r *recorder) resize(columns, rows int) {
	if columns == r.Columns && rows == r.Rows {
		return
	}
	r.Columns, r.Rows = max(columns, 1), max(rows, 1)
	r.event("r", fmt.Sprintf("%dx%d", r.Columns, r.Rows))
}

// wholeRunes splits off a character whose last bytes have not come. What is no UTF-8 at all counts
// as whole: it is replaced later.
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

// event appends one line; false when the disk did not take it. code is asciicast's: "o" output, "r"
// a new size.
func (r *recorder) event(code, text string) bool {
	if r.unsaid > 0 && text != "" {
		n := r.unsaid
		r.unsaid = 0
		if !r.event("o", leftOutText(n)) {
			r.unsaid = n
			return false
		}
	}
	if text == "" || !r.open() {
		return text == ""
	}
	line, err := json.Marshal([]any{json.Number(fmt.Sprintf("%.6f", max(r.elapsed()-r.begun, 0))), code, text})
	return err == nil && r.line(line)
}

// leftOutText is what a transcript says in place of output that it lacks.
func leftOutText(n uint64) string {
	return fmt.Sprintf("\r\n[agentbox: %d bytes of output left out]\r\n", n)
}

// line appends a line as a whole, or nothing.
func (r *recorder) line(line []byte) bool {
	// At the end of what is whole: half a line of a full disk is written over.
	if _, err := r.file.WriteAt(append(line, '\n'), r.size); err != nil {
		_ = r.file.Truncate(r.size) // what cannot be cut off is written over by the next line
		return false
	}
	r.size += int64(len(line)) + 1
	return true
}

// open makes sure that there is a file with room. A part that cannot be begun is tried again at the
// next event.
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
	// The first part ends here: how much it has is in the header of every later one, so that a
	// reader knows what lies between.
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
		r.drop(old)
	}
	return true
}

// header is the first line of the part that begins now.
func (r *recorder) header() []byte {
	at := r.now()
	line, _ := json.Marshal(header{ // of numbers and texts
		Version: 2, Width: r.Columns, Height: r.Rows, Timestamp: at.Unix(), Idle: playIdle, Command: strings.Join(r.rec.Command, " "),
		Part: part{Offset: r.begun, From: r.Pos, Missed: r.Missed, Head: r.Head, Pipe: !r.rec.TTY},
	})
	return line
}

// drop removes a part whose place another one took, and counts what goes with it. Part 0 is never
// dropped: the beginning of a job tells most.
func (r *recorder) drop(number int) {
	gone, err := readHeader(partName(r.dir, number))
	next, nextErr := readHeader(partName(r.dir, number+1))
	if err == nil && nextErr == nil && next.Part.held() >= gone.Part.held() {
		r.LeftOut += next.Part.held() - gone.Part.held() // the reader of the transcript sees that the parts do not meet
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

// goOn begins where the recorder before left off, in a file of its own.
func (r *recorder) goOn() error {
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

// leaveOff closes the file of a job that goes on without us. The next part begins with what is said
// from then on.
func (r *recorder) leaveOff() error {
	if r.number == 0 {
		r.Head = r.Pos
	}
	r.close()
	return writeJSON(filepath.Join(r.dir, positionFile), r.position)
}

// close writes what is left and closes the file.
func (r *recorder) close() {
	for _, rest := range r.carry {
		r.event("o", r.text(rest))
	}
	r.carry = map[byte][]byte{}
	if r.unsaid > 0 {
		n := r.unsaid
		r.unsaid = 0
		r.event("o", leftOutText(n))
	}
	r.closeFile()
}
