package job

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox/background"
	"agentbox/agentbox/bounded"
)

// maxLine bounds a line of a transcript: one frame of the guest, with every byte escaped.
const maxLine = 1 << 20

// event is one line of a transcript: at seconds after the job's start, code "o" for output or "r"
// for a new size. Text is UTF-8, as a terminal gets it.
type event struct {
	At   float64
	Code string
	Text string
}

// writeText writes an event's output as the job wrote it, without the carriage returns that a
// terminal needs. pipe is the part's.
func (e event) writeText(w io.Writer, pipe bool) error {
	if e.Code != "o" {
		return nil
	}
	text := e.Text
	if pipe {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	_, err := io.WriteString(w, text)
	return err
}

// Transcript reads what a job wrote, also while the job goes on. It is only the path of a job's
// directory: nothing is open between two calls, and several may read at once.
type Transcript struct {
	dir string
}

// OpenTranscript is the transcript of the job in dir. Reading it shows whether there is one.
func OpenTranscript(dir string) Transcript { return Transcript{dir} }

// openPart opens a part and reads its first line, which has to be there.
func openPart(name string) (f *os.File, h header, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, h, err
	}
	line, err := bounded.ReadLine(bufio.NewReader(f), maxLine)
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err == nil && h.Version != 2 {
		err = errors.New("it is no asciicast of version 2")
	}
	if err != nil {
		f.Close()
		return nil, h, fmt.Errorf("%s: its first line: %w", name, err)
	}
	return f, h, nil
}

// readHeader reads the first line of a part.
func readHeader(name string) (header, error) {
	f, h, err := openPart(name)
	if err == nil {
		f.Close()
	}
	return h, err
}

// parts lists the numbers of the files that exist, in order.
func (t Transcript) parts() ([]int, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".cast"), "output-")
		if n, err := strconv.Atoi(digits); ok && err == nil && filepath.Ext(e.Name()) == ".cast" {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// followEvery is how often a growing transcript is polled. The writer may be another process, which
// cannot notify us.
const followEvery = 100 * time.Millisecond

// events calls f for each event, in order, and adds an event where parts are missing. With follow
// it waits for more until the job or ctx has ended, which is no error. It ends with the first error
// of f. Times are from the job's start, across all parts. A job whose supervisor was killed has no
// end until the next supervisor writes it.
func (t Transcript) events(ctx context.Context, follow bool, f func(about header, e event) error) error {
	r := &partReader{t: t, number: -1, each: f}
	defer r.close()
	for {
		// exit.json is written when the last output is.
		end, err := readEnd(t.dir) // before the last look, so that nothing is missed
		if err != nil {
			return err
		}
		if err := r.drain(); err != nil {
			return err
		}
		if end != nil || !follow {
			return nil
		}
		if !background.Sleep(ctx, followEvery) {
			return nil
		}
	}
}

// partReader reads the parts one after the other, each as far as it is written. It is one reading
// of a transcript, by one goroutine. A part that is removed while it is open is still read to its
// end.
type partReader struct {
	t           Transcript
	each        func(header, event) error
	number      int
	file        *os.File
	readBytes   int64  // bytes of whole lines
	firstHeader header // of the first part
	offset      float64
	from        uint64
}

// close closes the open part, if any.
func (p *partReader) close() {
	if p.file != nil {
		p.file.Close()
	}
}

func (p *partReader) drain() error {
	for {
		if p.file != nil {
			if err := p.lines(); err != nil {
				return err
			}
		}
		more, err := p.next()
		if err != nil || !more {
			return err
		}
	}
}

// next opens the next part, if there is one. It skips a part that was removed meanwhile.
func (p *partReader) next() (bool, error) {
	numbers, err := p.t.parts()
	if err != nil {
		return false, err
	}
	for _, n := range numbers {
		if n <= p.number {
			continue
		}
		f, h, err := openPart(partName(p.t.dir, n))
		if err != nil { // its first line is being written, or it was removed
			continue
		}
		if p.file != nil { // the last one may have grown before the next was begun
			if err := p.lines(); err != nil {
				f.Close()
				return false, err
			}
		}
		return true, p.begin(n, h, f)
	}
	return false, nil
}

// begin goes on with part n. If parts before it were dropped, it says how much is missing.
func (p *partReader) begin(n int, h header, f *os.File) error {
	p.close()
	if p.number < 0 {
		p.firstHeader = h
	}
	// What lies between the end of part 0 and the oldest part that stays was dropped.
	missing, known := n != p.number+1, max(h.Part.Head, p.from)
	p.number, p.file, p.readBytes, p.offset, p.from = n, f, 0, h.Part.Offset, h.Part.From
	if missing && h.Part.From > known {
		return p.each(p.firstHeader, event{h.Part.Offset, "o", omittedText(h.Part.From - known)})
	}
	return nil
}

// lines reads the whole lines of the present part that were not read yet. It leaves a last line
// without its end for the next time.
func (p *partReader) lines() error {
	in := bufio.NewReaderSize(io.NewSectionReader(p.file, p.readBytes, 1<<40), 64<<10)
	for {
		line, err := bounded.ReadLine(in, maxLine)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// The first line is the header, which was read before.
		first := p.readBytes == 0
		p.readBytes += int64(len(line)) + 1
		if first {
			continue
		}
		e, err := parseEvent(line)
		if err != nil {
			return fmt.Errorf("%s: %w", p.file.Name(), err)
		}
		e.At += p.offset
		if err := p.each(p.firstHeader, e); err != nil {
			return err
		}
	}
}

func parseEvent(line []byte) (event, error) {
	var fields []json.RawMessage
	var e event
	err := json.Unmarshal(line, &fields)
	if err == nil && len(fields) != 3 {
		err = fmt.Errorf("an event of %d fields", len(fields))
	}
	if err == nil {
		err = errors.Join(json.Unmarshal(fields[0], &e.At), json.Unmarshal(fields[1], &e.Code), json.Unmarshal(fields[2], &e.Text))
	}
	return e, err
}

// WriteText writes the output as the job wrote it. It is always UTF-8: other bytes were replaced
// when they were recorded.
func (t Transcript) WriteText(ctx context.Context, w io.Writer, follow bool) error {
	return t.events(ctx, follow, func(about header, e event) error {
		return e.writeText(w, about.Part.Pipe)
	})
}

// WriteLastLines is WriteText without all but the last lines of what is there now. Output is kept in
// pieces of any size, so lines cannot be found from its end: they are counted first. The transcript
// is bounded, so all of it fits in memory.
func (t Transcript) WriteLastLines(ctx context.Context, w io.Writer, lines int, follow bool) error {
	var all bytes.Buffer
	if err := t.WriteText(ctx, &all, false); err != nil {
		return err
	}
	skip := -lines
	for range bytes.Lines(all.Bytes()) {
		skip++
	}
	return t.WriteText(ctx, &lineSkipper{w: w, skip: skip}, follow)
}

// lineSkipper drops the first skip lines written to it, and passes on the rest.
type lineSkipper struct {
	w    io.Writer
	skip int
}

// Write implements io.Writer. Its count includes dropped bytes.
func (ls *lineSkipper) Write(b []byte) (int, error) {
	rest := b
	for ls.skip > 0 && len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return len(b), nil
		}
		rest = rest[end+1:]
		ls.skip--
	}
	_, err := ls.w.Write(rest)
	return len(b), err
}

// WriteCast writes the whole transcript as one asciicast v2 file, which asciinema plays. Its header
// does not say how the job ended.
func (t Transcript) WriteCast(ctx context.Context, w io.Writer) error {
	begun := false
	return t.events(ctx, false, func(about header, e event) error {
		if !begun {
			begun = true
			line, _ := json.Marshal(map[string]any{ // of numbers and texts
				"version": 2, "width": about.Width, "height": about.Height, "timestamp": about.Timestamp, "idle_time_limit": maxPlayIdle, "command": about.Command,
				"agentbox": map[string]any{"pipe": about.Part.Pipe},
			})
			if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
				return err
			}
		}
		line, err := json.Marshal([]any{json.Number(fmt.Sprintf("%.6f", e.At)), e.Code, e.Text})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", line)
		return err
	})
}

// WriteCastText writes the output in a file that WriteCast wrote. It is for transcripts that
// outlive their job's directory, such as a task's evidence.
func WriteCastText(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var about header
	for first := true; ; first = false {
		line, err := bounded.ReadLine(in, maxLine)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && first {
			if err = json.Unmarshal(line, &about); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		e, err := parseEvent(line)
		if err != nil {
			return err
		}
		if err := e.writeText(w, about.Part.Pipe); err != nil {
			return err
		}
	}
}
