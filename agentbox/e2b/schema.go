package e2b

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// protobuf is Protocol Buffers for Connect, gRPC and gRPC-Web. A message takes its way through JSON, which
// the library translates by a description made of our types: so both are the same by construction.
type protobuf struct{}

// Name implements connect.Codec.
func (protobuf) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (protobuf) Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	m, err := newMessage(v)
	if err == nil {
		err = protojson.Unmarshal(text, m)
	}
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (protobuf) Unmarshal(b []byte, v any) error {
	m, err := newMessage(v)
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

func newMessage(v any) (*dynamicpb.Message, error) {
	t := reflect.TypeOf(v).Elem()
	file, err := described(t)
	if err != nil {
		return nil, err
	}
	return dynamicpb.NewMessage(file.Messages().ByName(protoreflect.Name(t.Name()))), nil
}

var descriptions sync.Map // of types, by type

func described(t reflect.Type) (protoreflect.FileDescriptor, error) {
	if known, ok := descriptions.Load(t); ok {
		return known.(protoreflect.FileDescriptor), nil
	}
	f := &schema{&descriptorpb.FileDescriptorProto{
		Name: proto.String(t.Name()), Dependency: []string{timestamppb.File_google_protobuf_timestamp_proto.Path()},
	}}
	f.add(t)
	file, err := protodesc.NewFile(f.FileDescriptorProto, protoregistry.GlobalFiles)
	if err == nil {
		descriptions.Store(t, file)
	}
	return file, err
}

// schema is a file that is being made. Its syntax is that of version 2, which on the wire is that of
// version 3 and knows which fields are there.
type schema struct {
	*descriptorpb.FileDescriptorProto
}

// add adds a struct and what it contains, once.
func (s *schema) add(t reflect.Type) {
	if slices.ContainsFunc(s.MessageType, func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == t.Name() }) {
		return
	}
	m := &descriptorpb.DescriptorProto{Name: proto.String(t.Name())}
	s.MessageType = append(s.MessageType, m)
	for _, field := range reflect.VisibleFields(t) {
		number, err := strconv.ParseInt(field.Tag.Get("proto"), 10, 32)
		if err != nil {
			continue // what is embedded, whose fields are visible too
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		d := s.typed(m, name, field.Type)
		d.Name, d.JsonName, d.Number = proto.String(name), proto.String(name), proto.Int32(int32(number))
		m.Field = append(m.Field, d)
	}
}

// typed is a field of a type. The messages and enums that it needs are added to the file, the entries of
// a map to its message.
func (s *schema) typed(m *descriptorpb.DescriptorProto, name string, t reflect.Type) *descriptorpb.FieldDescriptorProto {
	d := &descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	values, enum := enums[t]
	kind, scalar := scalars[t.Kind()]
	switch {
	case t == reflect.TypeFor[time.Time]():
		d.TypeName = proto.String(".google.protobuf.Timestamp")
	case enum:
		d.TypeName = proto.String("." + s.enum(t.Name(), values))
	case scalar:
		d.Type = kind.Enum()
	case t == reflect.TypeFor[[]byte]():
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
	case t.Kind() == reflect.Slice:
		d = s.typed(m, name, t.Elem())
		d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	case t.Kind() == reflect.Map:
		d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		d.TypeName = proto.String("." + m.GetName() + "." + s.entries(m, name, t))
	case t.Kind() == reflect.Struct:
		s.add(t)
		d.TypeName = proto.String("." + t.Name())
	default:
		panic(fmt.Sprintf("e2b: %s is no type of a message", t))
	}
	return d
}

func (s *schema) entries(m *descriptorpb.DescriptorProto, name string, t reflect.Type) string {
	entry := &descriptorpb.DescriptorProto{
		Name: proto.String(strings.ToUpper(name[:1]) + name[1:] + "Entry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
	}
	for i, part := range []reflect.Type{t.Key(), t.Elem()} {
		d := s.typed(m, name, part)
		d.Name, d.Number = proto.String([]string{"key", "value"}[i]), proto.Int32(int32(i+1))
		entry.Field = append(entry.Field, d)
	}
	m.NestedType = append(m.NestedType, entry)
	return entry.GetName()
}

func (s *schema) enum(name string, values map[string]int32) string {
	e := &descriptorpb.EnumDescriptorProto{Name: proto.String(name)}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(value), Number: proto.Int32(values[value])})
	}
	s.EnumType = append(s.EnumType, e)
	return name
}

var scalars = map[reflect.Kind]descriptorpb.FieldDescriptorProto_Type{
	reflect.String: descriptorpb.FieldDescriptorProto_TYPE_STRING,
	reflect.Bool:   descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	reflect.Uint32: descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	reflect.Int32:  descriptorpb.FieldDescriptorProto_TYPE_SINT32,
	reflect.Int64:  descriptorpb.FieldDescriptorProto_TYPE_INT64,
}

var enums = map[reflect.Type]map[string]int32{
	reflect.TypeFor[signal]():    {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9},
	reflect.TypeFor[fileType]():  {"FILE_TYPE_FILE": 1, "FILE_TYPE_DIRECTORY": 2, "FILE_TYPE_SYMLINK": 3},
	reflect.TypeFor[eventType](): {"EVENT_TYPE_CREATE": 1, "EVENT_TYPE_WRITE": 2, "EVENT_TYPE_REMOVE": 3, "EVENT_TYPE_RENAME": 4, "EVENT_TYPE_CHMOD": 5},
}
