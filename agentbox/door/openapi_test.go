package door_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/door"
)

var update = flag.Bool("update", false, "write openapi.json")

// The document is what the types say. After a change: go test ./agentbox/door -run TestDocument -update
func TestDocument(t *testing.T) {
	g := generator{t: t, schemas: map[string]any{}, docs: map[string]map[string]string{}}
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(g.document()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got.Bytes(), door.Document) {
		t.Error("openapi.json is not what the types say: go test ./agentbox/door -run TestDocument -update")
	}
}

type object = map[string]any

type generator struct {
	t       *testing.T
	schemas object
	docs    map[string]map[string]string // by package, then "Type" and "Type.Field"
}

func (g *generator) document() object {
	paths := object{}
	for _, call := range api.Public() {
		paths[call.Path] = g.path(call)
	}
	g.schemas["Error"] = object{"type": "object", "required": []string{"error"}, "properties": object{"error": g.schema(reflect.TypeFor[agentbox.Error]())}}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "agentbox", "version": "1",
			"description": "The public calls of `agentbox serve`. Each takes a JSON object. With Accept: text/event-stream the answer is server-sent events: progress, text, and at the end result, end or error.\n\n" +
				"The WebSocket /v1/box/terminal?box=BOX&columns=80&rows=24 is a terminal: binary messages are what is typed and shown, and {\"columns\": N, \"rows\": N} changes its size. The last message is {\"exit\": STATUS} or an error.\n\n" +
				"Sizes are bytes, durations nanoseconds, times RFC 3339.",
		},
		"security":   []object{{"token": []string{}}},
		"paths":      paths,
		"components": object{"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "agentbox token create"}}, "schemas": g.schemas},
	}
}

func (g *generator) path(call api.PublicCall) object {
	ok := object{"description": "done", "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	if !call.Bytes {
		ok["content"] = object{"application/json": object{"schema": g.schema(call.Response)}}
	}
	op := object{
		"operationId": strings.ReplaceAll(strings.TrimPrefix(call.Path, "/v1/"), "/", "."), "summary": call.Doc, "description": "Needs a token for " + string(call.Scope) + ".",
		"requestBody": object{"content": object{"application/json": object{"schema": g.schema(call.Request)}}},
		"responses":   object{"200": ok, "default": object{"description": "not done", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}},
	}
	var params []object
	param := func(name, in, kind, doc string) {
		params = append(params, object{"name": name, "in": in, "description": doc, "schema": object{"type": kind}})
	}
	if call.Scope != api.ScopeRead && !call.Bytes {
		param("Idempotency-Key", "header", "string", "Two requests with the same key are done once.")
	}
	if call.Response != nil && call.Response.Kind() == reflect.Slice {
		param("limit", "query", "integer", "At most so many elements; the header Agentbox-Next of the answer is the next after.")
		param("after", "query", "string", "Begin behind the element with this ID.")
	}
	if params != nil {
		op["parameters"] = params
	}
	return object{"post": op}
}

// schema returns the schema of a type; structs are components.
func (g *generator) schema(t reflect.Type) object {
	text := reflect.TypeFor[encoding.TextMarshaler]()
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	case t.Kind() != reflect.Pointer && (t.Implements(text) || reflect.PointerTo(t).Implements(text)):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.schema(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": []string{"array", "null"}, "items": g.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case reflect.Struct:
		return g.structure(t)
	case reflect.Interface:
		return object{}
	}
	if strings.HasPrefix(t.Kind().String(), "int") || strings.HasPrefix(t.Kind().String(), "uint") {
		return object{"type": "integer", "format": "int64"}
	}
	g.t.Fatalf("no schema for %s", t)
	return nil
}

func (g *generator) structure(t reflect.Type) object {
	name := filepath.Base(t.PkgPath()) + "." + t.Name()
	ref := object{"$ref": "#/components/schemas/" + name}
	if _, done := g.schemas[name]; done {
		return ref
	}
	properties := object{}
	s := object{"type": "object", "properties": properties}
	g.schemas[name] = s // before the fields, which may lead back
	if doc := g.doc(t.PkgPath(), t.Name()); doc != "" {
		s["description"] = doc
	}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || key == "-" || !f.IsExported() {
			continue
		}
		of := t
		for _, i := range f.Index[:len(f.Index)-1] {
			of = of.Field(i).Type
		}
		field := g.schema(f.Type)
		if doc := g.doc(of.PkgPath(), of.Name()+"."+f.Name); doc != "" {
			field["description"] = doc
		}
		properties[key] = field
	}
	return ref
}

// doc returns the comment of a type or of a field.
func (g *generator) doc(pkg, name string) string {
	if _, ok := g.docs[pkg]; !ok {
		g.docs[pkg] = map[string]string{}
		dir, ours := strings.CutPrefix(pkg, "agentbox/")
		if ours {
			g.read(filepath.Join("..", "..", dir), g.docs[pkg])
		}
	}
	return g.docs[pkg][name]
}

func (g *generator) read(dir string, into map[string]string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					commentsOf(spec, d.Doc, into)
				}
			}
		}
	}
}

func commentsOf(spec *ast.TypeSpec, doc *ast.CommentGroup, into map[string]string) {
	text := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	into[spec.Name.Name] = text(doc)
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			if into[spec.Name.Name+"."+name.Name] = text(f.Doc); f.Doc == nil {
				into[spec.Name.Name+"."+name.Name] = text(f.Comment)
			}
		}
	}
}
