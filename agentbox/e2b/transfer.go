package e2b

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// download serves GET /files. What a box wrote is no page of ours, so it is only saved.
func (f *Face) download(w http.ResponseWriter, r *http.Request, s session) error {
	fs, done, err := f.openFiles(r.Context(), s, r.URL.Query().Get("username"))
	if err != nil {
		return err
	}
	defer done()
	at := fs.at(r.URL.Query().Get("path"))
	file, err := fs.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = agentbox.Errorf(agentbox.Invalid, "%s is a directory", at)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(at)}))
	if info.Size() > 0 { // files of /proc have none
		h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	}
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, io.NewSectionReader(file, 0, 1<<62)); err != nil {
		panic(http.ErrAbortHandler) // half a file must not look whole
	}
	return nil
}

// upload serves POST /files: one file as it is, or any number as a form. SFTP keeps no metadata of files.
func (f *Face) upload(w http.ResponseWriter, r *http.Request, s session) error {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return agentbox.Errorf(agentbox.Invalid, "a file in a box has no metadata")
		}
	}
	query := r.URL.Query()
	fs, done, err := f.openFiles(r.Context(), s, query.Get("username"))
	if err != nil {
		return err
	}
	defer done()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "cannot read the upload: %w", err)
		}
	}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	out := []written{}
	if kind == "multipart/form-data" {
		out, err = fs.writeForm(multipart.NewReader(body, params["boundary"]), query.Get("path"))
	} else {
		var one written
		one, err = fs.write(query.Get("path"), body)
		out = append(out, one)
	}
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, out)
	return nil
}

// writeForm writes the files of a form. name is that of the only one, or "": then each part has its
// own, which may be a path, so that mime/multipart's FileName would be the end of it only.
func (fs files) writeForm(form *multipart.Reader, name string) ([]written, error) {
	out := []written{}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "cannot read the form: %w", err)
		}
		if part.FormName() != "file" {
			continue
		}
		at := name
		if at == "" {
			at = partName(part.Header.Get("Content-Disposition"))
		}
		one, err := fs.write(at, part)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
}

func partName(disposition string) string {
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		return ""
	}
	return params["filename"]
}
