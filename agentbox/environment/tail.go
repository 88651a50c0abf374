package environment

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"agentbox/agentbox/background"
)

// LogFile is a file that grows, here or in the environment. ReadAt beyond its end returns io.EOF,
// and Stat its current size.
type LogFile interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
	Close() error
}

// Open opens a file of the environment for reading.
func (f *Files) Open(name string) (LogFile, error) {
	file, err := f.sftp.Open(name)
	if err != nil {
		return nil, f.failure("open", name, err)
	}
	return file, nil
}

// followEvery is how often a followed file is polled. Neither SFTP nor a box's file notifies of
// growth. Five times a second looks immediate to a reader.
const followEvery = 200 * time.Millisecond

// Tail writes the last lines of a file, or all of it if lines is negative. With follow it then
// waits for more until ctx is done, which is no error; a file that was truncated is read from its
// beginning. A last line without an end counts as one. With 0 lines nothing of the present content
// is written.
func Tail(ctx context.Context, f LogFile, lines int, follow bool, w io.Writer) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	from := int64(0)
	if lines >= 0 {
		if from, err = lastLines(f, info.Size(), lines); err != nil {
			return err
		}
	}
	for {
		// Some files (those of /proc) have no size, so the end is where reading says it is.
		n, err := io.Copy(w, io.NewSectionReader(f, from, 1<<62))
		from += n
		if err != nil || !follow {
			return err
		}
		if !background.Sleep(ctx, followEvery) {
			return nil
		}
		if info, err = f.Stat(); err != nil {
			return err
		}
		if size := info.Size(); size > 0 && size < from {
			from = 0
		}
	}
}

// lastLines finds where the last n lines of the first size bytes begin; 0 if there are fewer. It
// reads backward in pieces, so the end of a large file costs little. n is not negative.
func lastLines(f io.ReaderAt, size int64, n int) (int64, error) {
	if n == 0 {
		return size, nil
	}
	buf := make([]byte, copyBuffer)
	end := size
	for end > 0 {
		begin := max(end-int64(len(buf)), 0)
		part := buf[:end-begin]
		got, err := f.ReadAt(part, begin)
		switch {
		case got == len(part):
		case errors.Is(err, io.EOF): // it was cut since its size was asked for
			return lastLines(f, begin+int64(got), n)
		default:
			return 0, err
		}
		if end == size && part[len(part)-1] == '\n' { // it ends the last line and begins no other
			part = part[:len(part)-1]
		}
		for {
			at := bytes.LastIndexByte(part, '\n')
			if at < 0 {
				break
			}
			if n--; n == 0 {
				return begin + int64(at) + 1, nil
			}
			part = part[:at]
		}
		end = begin
	}
	return 0, nil
}
