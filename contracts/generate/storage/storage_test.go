package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/writ-id/writ/contracts/generate/schema"
	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
)

const root = "../../../gen/"

// contractOf returns the published descriptors.
func contractOf(t *testing.T) *descriptorpb.FileDescriptorSet {
	t.Helper()
	image, err := os.ReadFile(root + "openapi/descriptors.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(image, &set); err != nil {
		t.Fatal(err)
	}
	return &set
}

func generated(t *testing.T, set *descriptorpb.FileDescriptorSet) (map[string]string, error) {
	t.Helper()
	plugin, err := pluginOf(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := readModels(root+"db", root+"../sql")
	if err != nil {
		t.Fatal(err)
	}
	return code(plugin, found)
}

func TestTheGoldenFilesAreGen(t *testing.T) {
	t.Parallel()
	files, err := generated(t, contractOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Errorf("got %d tables", len(files))
	}
	for name, got := range files {
		want, err := os.ReadFile(filepath.Join(root, "storage", name))
		if err != nil {
			t.Error(err)
		} else if got != string(want) {
			t.Errorf("%s differs from what the generator writes; run make generate", name)
		}
	}
}

// messageOf finds a message or, with a dot, one of its enumerations' files.
func messageOf(t *testing.T, set *descriptorpb.FileDescriptorSet, name string) *descriptorpb.DescriptorProto {
	t.Helper()
	for _, file := range set.GetFile() {
		for _, message := range file.GetMessageType() {
			if file.GetPackage()+"."+message.GetName() == name {
				return message
			}
		}
	}
	t.Fatalf("there is no message %s", name)
	return nil
}

// changeTable changes what a message says of its table.
func changeTable(t *testing.T, set *descriptorpb.FileDescriptorSet, name string, change func(*storagev1.Table)) {
	t.Helper()
	options := messageOf(t, set, name).GetOptions()
	of := proto.CloneOf(proto.GetExtension(options, storagev1.E_Table).(*storagev1.Table))
	change(of)
	proto.SetExtension(options, storagev1.E_Table, of)
}

func enumOf(t *testing.T, set *descriptorpb.FileDescriptorSet, name string) *descriptorpb.EnumDescriptorProto {
	t.Helper()
	for _, file := range set.GetFile() {
		for _, enum := range file.GetEnumType() {
			if file.GetPackage()+"."+enum.GetName() == name {
				return enum
			}
		}
	}
	t.Fatalf("there is no enumeration %s", name)
	return nil
}

// text is a new field of text.
func text(name string, number int32) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), JsonName: proto.String(name), Number: proto.Int32(number),
		Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

// TestWhatDoesNotFitFailsByName breaks the contract in each way that the generator has to
// find.
func TestWhatDoesNotFitFailsByName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		change     func(*testing.T, *descriptorpb.FileDescriptorSet)
	}{
		{"a field of a request without a column", "writ.action.v3alpha.Target.colour: the table targets has no column for it", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.action.v3alpha.Target")
			m.Field = append(m.Field, text("colour", 99))
		}},
		{"a field of an answer without a column", "writ.project.v3alpha.GetProject.colour: the table projects has no column for it", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.project.v3alpha.GetProject")
			m.Field = append(m.Field, text("colour", 99))
		}},
		{"a field of an event without a column", "writ.event.v1.TargetAdded.colour: the table targets has no column for it", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.event.v1.TargetAdded")
			m.Field = append(m.Field, text("colour", 99))
		}},
		{"a request that moves an object", "writ.project.v3alpha.PatchProject.org_id: a request must not reach the column org_id", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.project.v3alpha.PatchProject")
			m.Field = append(m.Field, text("org_id", 99))
		}},
		{"a request that chooses an ID", "writ.project.v3alpha.Project.id: a request must not reach the column id", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			for _, field := range messageOf(t, set, "writ.project.v3alpha.Project").GetField() {
				if field.GetName() == "id" {
					proto.ClearExtension(field.GetOptions(), storagev1.E_Computed)
				}
			}
		}},
		{"a request that sets what is only read", "writ.org.v3alpha.PatchOrganization.primary_domain: the column primary_domain is only read", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.org.v3alpha.PatchOrganization")
			m.Field = append(m.Field, text("primary_domain", 99))
		}},
		{"a table that is not there", "there is no table or view nothing", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			changeTable(t, set, "writ.action.v3alpha.Target", func(of *storagev1.Table) { of.Name = "nothing" })
		}},
		{"a message of a table that is not there", "writ.action.v3alpha.PatchTarget: there is no table nothing", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			proto.SetExtension(messageOf(t, set, "writ.action.v3alpha.PatchTarget").GetOptions(), storagev1.E_Of, "nothing")
		}},
		{"a table that grows in a column it lacks", "the table users has no column height", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			changeTable(t, set, "writ.user.v3alpha.User", func(of *storagev1.Table) { of.Growing = append(of.Growing, "height") })
		}},
		{"a sorting column without a column", "PROJECT_FIELD_NAME_COLOUR: the table projects has no column colour to sort by", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			e := enumOf(t, set, "writ.project.v3alpha.ProjectFieldName")
			e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String("PROJECT_FIELD_NAME_COLOUR"), Number: proto.Int32(99)})
		}},
		{"a filter without a column", "writ.project.v3alpha.ProjectSearchFilter.colour: the table projects has no column for it", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.project.v3alpha.ProjectSearchFilter")
			field := text("colour", 99)
			field.OneofIndex = proto.Int32(0)
			m.Field = append(m.Field, field)
		}},
		{"a part of a path without a column", "writ.project.v3alpha.SearchProjectsRequest.colour: the table projects has no column for it", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.project.v3alpha.SearchProjectsRequest")
			m.Field = append(m.Field, text("colour", 99))
		}},
		{"a setting that is shown and is no property", "writ.settings.v3alpha.ResolvedBrandingSettings.colour: it is no property of writ.event.v1.BrandingSet", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.settings.v3alpha.ResolvedBrandingSettings")
			m.Field = append(m.Field, text("colour", 99))
		}},
		{"a setting that is asked for and is no property", "writ.settings.v3alpha.SetBrandingSettings.colour: it is no property of writ.event.v1.BrandingSet", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			m := messageOf(t, set, "writ.settings.v3alpha.SetBrandingSettings")
			m.Field = append(m.Field, text("colour", 99))
		}},
		{"a sealed field of a column that is not", "the column secret_hash is sealed here and not in sql/sealed.yaml", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			for _, field := range messageOf(t, set, "writ.transfer.v1.TransferApp").GetField() {
				if field.GetName() == "secret_hash" {
					proto.SetExtension(field.GetOptions(), storagev1.E_Sealed, true)
				}
			}
		}},
		{"a constraint without a reason", "the constraint user_grants_user_key of the table user_grants has no reason", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			changeTable(t, set, "writ.grant.v3alpha.UserGrant", func(of *storagev1.Table) { of.Refused = nil })
		}},
		{"a reason for a constraint that is not there", "there is no constraint targets_colour_key", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			changeTable(t, set, "writ.action.v3alpha.Target", func(of *storagev1.Table) {
				of.Refused = append(of.Refused, &storagev1.Refused{Constraint: "targets_colour_key", Reason: "COLOUR_TAKEN"})
			})
		}},
		{"a oneof whose kind has no column", "the table targets has no column shape", func(t *testing.T, set *descriptorpb.FileDescriptorSet) {
			proto.SetExtension(messageOf(t, set, "writ.action.v3alpha.Target").GetOneofDecl()[0].GetOptions(), storagev1.E_Kind, "shape")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set := contractOf(t)
			test.change(t, set)
			_, err := generated(t, set)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestEachColumnOfBytesIsSealedOrOpen: a secret that nobody seals anew is lost with the old
// master key.
func TestEachColumnOfBytesIsSealedOrOpen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ migration, want string }{
		"a new column":        {"ALTER TABLE apps ADD COLUMN signing_key bytea", "sql/sealed.yaml names the column apps.signing_key 0 times"},
		"a column that went":  {"ALTER TABLE targets DROP COLUMN old_signing_key", "sql/sealed.yaml: targets.old_signing_key is no column of bytes"},
		"what it is bound to": {"ALTER TABLE authenticators DROP COLUMN user_id", "the table authenticators has no column user_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of, err := schema.Read(root + "../sql/migrations")
			if err == nil {
				err = of.Add(test.migration)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readSeals(root+"../sql/sealed.yaml", of); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestAnEnumerationIsOfOneType refuses two types for one column.
func TestAnEnumerationIsOfOneType(t *testing.T) {
	t.Parallel()
	set := contractOf(t)
	for _, field := range messageOf(t, set, "writ.org.v3alpha.GetOrganization").GetField() {
		if field.GetName() == "state" {
			field.TypeName = proto.String(".writ.object.v3alpha.OwnerType")
		}
	}
	plugin, err := pluginOf(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := readModels(root+"db", root+"../sql")
	if err != nil {
		t.Fatal(err)
	}
	c, err := readContract(plugin, found, func(of *storagev1.Table) (*model, *model) {
		rows := found.byName[found.answers[camel(of.GetName())+"Read"]]
		return rows, rows
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.enums([]byte("sql: [{gen: {go: {out: x}}}]")); err == nil || !strings.Contains(err.Error(), "organizations.state is of the type") {
		t.Errorf("got %v", err)
	}
}
