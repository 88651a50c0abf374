module agentbox

go 1.26.0

require (
	al.essio.dev/pkg/shellescape v1.6.1 // quoting for a box's shell
	connectrpc.com/connect v1.21.1 // the E2B SDK's calls
	github.com/Masterminds/semver/v3 v3.4.0 // version pins of repositories
	github.com/PlakarKorp/go-cdc-chunkers v1.1.0 // the store
	github.com/agext/levenshtein v1.2.3 // what a mistyped word was meant to be
	github.com/andybalholm/brotli v1.2.8 // tokens in compressed answers of models; one maintainer, the bounds are ours (policy/gateway/contentcoding.go)
	github.com/cavaliergopher/cpio v1.0.1 // kernels
	github.com/coder/websocket v1.8.15 // terminals on the page
	github.com/dgraph-io/badger/v4 v4.9.6 // the store's index
	github.com/erofs/go-erofs v0.3.1 // images
	github.com/godbus/dbus/v5 v5.2.2 // what logind knows of people and sleep
	github.com/google/go-containerregistry v0.22.1 // images of registries
	github.com/hanwen/go-fuse/v2 v2.12.1 // images that arrive block by block, under gVisor
	github.com/hashicorp/go-msgpack/v2 v2.1.5 // the mesh
	github.com/hashicorp/memberlist v0.7.0 // the mesh
	github.com/klauspost/compress v1.20.3 // images, the mesh
	github.com/lima-vm/lima/v2 v2.2.0 // a machine on hosts that cannot run boxes, in agentbox-lima alone
	github.com/mattn/go-shellwords v1.0.14 // commands of Compose files, by the library of docker compose
	github.com/mdp/qrterminal/v3 v3.2.1 // the command line
	github.com/modelcontextprotocol/go-sdk v1.8.0 // MCP with its logins
	github.com/netresearch/go-cron v0.9.1 // its parser of crontab lines; robfig/cron has had no release since 2020
	github.com/opencontainers/runtime-spec v1.3.0 // the description that runsc gets
	github.com/pelletier/go-toml/v2 v2.3.1 // configurations, with line numbers
	github.com/pjbgf/sha1cd v0.6.0 // names of git objects, with a look for the attacks on SHA-1
	github.com/pkg/sftp v1.13.12 // files in a box
	github.com/prometheus/client_golang v1.24.1 // what the daemon uses
	github.com/prometheus/procfs v0.23.0 // what a box uses
	github.com/quic-go/quic-go v0.65.0 // the mesh
	github.com/rogpeppe/go-internal v1.16.0 // tests (testscript)
	github.com/secure-systems-lab/go-securesystemslib v0.9.1 // statements about artifacts (DSSE)
	github.com/sirupsen/logrus v1.9.4 // Lima's log, in agentbox-lima alone
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f // configurations, with line numbers
	github.com/tetratelabs/wazero v1.12.0 // checks, in agentbox-check alone; the files are ours (agentbox/check/module/fs.go), as its DirFS follows links out
	github.com/ulikunitz/xz v0.5.17 // images and kernels
	github.com/urfave/cli/v3 v3.14.0 // the command line
	github.com/zalando/go-keyring v0.2.8 // the system's keyring
	go.yaml.in/yaml/v3 v3.0.6 // configurations, with line numbers
	golang.org/x/crypto v0.58.0 // SSH into a box
	golang.org/x/mod v0.41.0 // version pins of repositories
	golang.org/x/net v0.62.0 // HTTP/2, BPF
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // bench compare (benchmath)
	golang.org/x/sync v0.24.0 // concurrent parts, shared calls
	golang.org/x/sys v0.49.0 // system calls
	golang.org/x/term v0.47.0 // the command line
	golang.org/x/time v0.15.0 // the mesh (rate)
	gvisor.dev/gvisor v0.0.0-20250503011706-39ed1f5ac29c // its network stack, the other end of a box's cable
	k8s.io/api v0.37.2 // clusters, without the typed clients (3 MB)
	k8s.io/apimachinery v0.37.2 // clusters
	k8s.io/client-go v0.37.2 // clusters
	pgregory.net/rapid v1.3.0 // tests
	sigs.k8s.io/yaml v1.6.0 // clusters
	tags.cncf.io/container-device-interface v1.1.2 // descriptions of GPUs; none of their hooks run
	tags.cncf.io/container-device-interface/specs-go v1.1.1 // descriptions of GPUs
)

require (
	github.com/AlecAivazis/survey/v2 v2.3.7 // indirect
	github.com/Code-Hex/go-infinity-channel v1.0.0 // indirect
	github.com/Code-Hex/vz/v3 v3.7.1 // indirect
	github.com/Microsoft/go-winio v0.6.2 // indirect
	github.com/VividCortex/ewma v1.2.0 // indirect
	github.com/a8m/envsubst v1.4.3 // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/alecthomas/participle/v2 v2.1.4 // indirect
	github.com/apparentlymart/go-cidr v1.1.1 // indirect
	github.com/apparentlymart/go-textseg/v15 v15.0.0 // indirect
	github.com/balajiv113/fd v0.0.0-20230330094840-143eec500f3e // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bmatcuk/doublestar/v4 v4.7.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cheggaaa/pb/v3 v3.1.7 // indirect
	github.com/containerd/continuity v0.5.0 // indirect
	github.com/containerd/log v0.1.0 // indirect
	github.com/containers/gvisor-tap-vsock v0.8.9 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/danieljoos/wincred v1.2.3 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/dgraph-io/ristretto/v2 v2.2.0 // indirect
	github.com/digitalocean/go-libvirt v0.0.0-20220804181439-8648fbde413e // indirect
	github.com/digitalocean/go-qemu v0.0.0-20221209210016-f035778c97f7 // indirect
	github.com/dimchansky/utfbom v1.1.1 // indirect
	github.com/diskfs/go-diskfs v1.9.3 // indirect
	github.com/djherbis/times v1.6.0 // indirect
	github.com/docker/cli v29.7.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/elliotchance/orderedmap v1.8.0 // indirect
	github.com/fatih/color v1.19.0 // indirect
	github.com/fsnotify/fsnotify v1.8.0 // indirect
	github.com/fxamacker/cbor/v2 v2.9.1 // indirect
	github.com/go-ini/ini v1.67.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/goccy/go-json v0.10.6 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/google/flatbuffers v25.2.10+incompatible // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/gopacket v1.1.19 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/yamlfmt v0.21.0 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-metrics v0.7.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/hashicorp/go-sockaddr v1.0.7 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
	github.com/hashicorp/hcl/v2 v2.24.0 // indirect
	github.com/inetaf/tcpproxy v0.0.0-20250222171855-c4b9df066048 // indirect
	github.com/insomniacslk/dhcp v0.0.0-20240710054256-ddd8a41251c9 // indirect
	github.com/jinzhu/copier v0.4.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/kballard/go-shellquote v0.0.0-20180428030007-95032a82bc51 // indirect
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/kr/fs v0.1.0 // indirect
	github.com/lima-vm/go-qcow2reader v0.7.1 // indirect
	github.com/lima-vm/sshocker v0.3.11 // indirect
	github.com/linuxkit/virtsock v0.0.0-20220523201153-1a23e78aa7a2 // indirect
	github.com/magiconair/properties v1.8.10 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/mdlayher/socket v0.6.0 // indirect
	github.com/mdlayher/vsock v1.3.0 // indirect
	github.com/mgutz/ansi v0.0.0-20170206155736-9520e82c474b // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/mikefarah/yq/v4 v4.53.3 // indirect
	github.com/mitchellh/go-wordwrap v1.0.1 // indirect
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nxadm/tail v1.4.11 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58 // indirect
	github.com/pierrec/lz4/v4 v4.1.26 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.71.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/rjeczalik/notify v0.9.3 // indirect
	github.com/sabhiram/go-gitignore v0.0.0-20210923224102-525f6e181f06 // indirect
	github.com/sean-/seed v0.0.0-20170313163322-e2103e2c3529 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/sethvargo/go-password v0.3.1 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/u-root/uio v0.0.0-20240224005618-d2acac8f3701 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
	github.com/zclconf/go-cty v1.18.1 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.43.0 // indirect
	go.opentelemetry.io/otel/metric v1.43.0 // indirect
	go.opentelemetry.io/otel/trace v1.43.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	go.yaml.in/yaml/v4 v4.0.0-rc.4 // indirect
	golang.org/x/oauth2 v0.37.0 // logins at MCP servers
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478 // indirect
	google.golang.org/grpc v1.82.0 // indirect
	google.golang.org/protobuf v1.36.12 // the E2B SDK's calls
	gopkg.in/inf.v0 v0.9.1 // indirect
	gopkg.in/op/go-logging.v1 v1.0.0-20160211212156-b2cb9fa56473 // indirect
	gopkg.in/tomb.v1 v1.0.0-20141024135613-dd632973f1e7 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
	rsc.io/qr v0.2.0 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // clusters: JSON as they read it
	sigs.k8s.io/randfill v1.0.0 // indirect
	sigs.k8s.io/structured-merge-diff/v6 v6.4.2 // indirect
)
