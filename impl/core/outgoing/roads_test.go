package outgoing_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// roads are the places outside of this package that call out, each with the
// reason why no tenant chooses the address.
var roads = map[string]string{
	"cmd/writ/local.go":             "commands ask the node of this machine that their user names",
	"cmd/writ/doctor.go":            "writ doctor asks the issuers of the installation, as the operator who runs it",
	"cmd/writ/server.go":            "writ listen calls the receiver that the developer names",
	"impl/client":                   "commands call the server that their user names",
	"impl/doctor":                   "writ doctor asks the issuers of the installation, as the operator who runs it",
	"impl/server/dev_login.go":      "its requests go to this very process, by no connection",
	"impl/dev/postgres/download.go": "the development database comes from a fixed address",
	"impl/server/servertest":        "tests call their own server",
	"impl/core/store/pgtest":        "tests call their own database",
	"impl/core/outgoing":            "it is the road",
	"impl/core/objectstore":         "the libraries of storages call by the transport of package outgoing, and tests their own servers",
	"impl/core/courier/smtp.go":     "go-mail dials with the dialer of package outgoing, and nothing else does",
}

// callers are what calls out, by package.
var callers = map[string]string{
	"net/http": "Client Get Head Post PostForm DefaultClient Transport DefaultTransport NewRequest NewRequestWithContext",
	"net":      "Dial DialTimeout Dialer DialTCP DialUDP DialUnix DialIP Resolver LookupHost LookupIP LookupAddr LookupTXT LookupMX LookupNS LookupSRV LookupCNAME DefaultResolver",
	"net/smtp": "Dial SendMail NewClient", "net/rpc": "Dial DialHTTP", "crypto/tls": "Dial DialWithDialer Dialer Client",
	"google.golang.org/grpc":           "NewClient Dial DialContext",
	"github.com/wneessen/go-mail":      "NewClient QuickSend",
	"google.golang.org/api/storage/v1": "NewService New",
	"github.com/wneessen/go-mail/smtp": "Dial SendMail",
}

// TestSEC250_ThereIsOneRoadOut looks for calls out in the source of the product.
func TestSEC250_ThereIsOneRoadOut(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	files, used := 0, map[string]bool{}
	for _, top := range []string{"impl", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files++
			for road := range roads {
				if strings.HasPrefix(filepath.ToSlash(name), road) {
					used[road] = true
					return nil
				}
			}
			return look(t, path, name)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(used) != len(roads) {
		t.Errorf("of the exceptions only %v exist", used)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

func look(t *testing.T, path, name string) error {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imported := map[string]string{} // what a name stands for in the file
	for _, one := range file.Imports {
		of, _ := strconv.Unquote(one.Path.Value)
		if callers[of] == "" {
			continue
		}
		as := strings.TrimPrefix(of[strings.LastIndex(of, "/")+1:], "go-")
		if one.Name != nil {
			as = one.Name.Name
		}
		imported[as] = of
	}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := selector.X.(*ast.Ident)
		if ok && imported[of.Name] != "" && strings.Contains(" "+callers[imported[of.Name]]+" ", " "+selector.Sel.Name+" ") {
			t.Errorf("%s:%d uses %s.%s: calls to addresses that tenants choose go through package outgoing", name, set.Position(node.Pos()).Line, of.Name, selector.Sel.Name)
		}
		return true
	})
	return nil
}
