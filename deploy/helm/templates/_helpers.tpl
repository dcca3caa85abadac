{{- define "wa.labels" -}}
app.kubernetes.io/name: wa-orchestrator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "wa.secret" -}}
{{ .Values.existingSecret | default (printf "%s-secrets" .Values.clusterName) }}
{{- end }}

{{- define "wa.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "wa.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* A part of the product: name, its values, its ports as name: number. */ -}}
{{- define "wa.part" -}}
{{- $root := .root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $root.Values.clusterName }}-{{ .name }}
  labels:
    {{- include "wa.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      app.kubernetes.io/instance: {{ $root.Release.Name }}
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels:
        {{- include "wa.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
      annotations:
        # Settings are read at the start.
        wa-orchestrator/settings: {{ toJson $root.Values.settings | sha256sum }}
    spec:
      {{- if eq .name "orchestrator" }}
      serviceAccountName: {{ $root.Values.clusterName }}-orchestrator
      {{- end }}
      automountServiceAccountToken: {{ eq .name "orchestrator" }}
      enableServiceLinks: false
      securityContext:
        {{- include "wa.podSecurity" $root | nindent 8 }}
      # Two of a part on two nodes, where there are two.
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/instance: {{ $root.Release.Name }}
              app.kubernetes.io/component: {{ .name }}
      # Of a lost node the cluster keeps Pods for five minutes more. Ours hurt nobody if both run: one of them leads.
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
      containers:
        - name: {{ .name }}
          image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag }}"
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .name }}]
          envFrom:
            - configMapRef: {name: {{ $root.Values.clusterName }}-settings}
          securityContext:
            {{- include "wa.containerSecurity" $root | nindent 12 }}
          resources:
            limits: {memory: {{ .values.memory }}}
            requests: {memory: 128Mi, cpu: 50m}
          {{- if .ports }}
          ports:
            {{- range $name, $number := .ports }}
            - {name: {{ $name }}, containerPort: {{ $number }}}
            {{- end }}
          # The cluster goes on sending requests for a moment after it has decided to end a Pod.
          lifecycle:
            preStop: {exec: {command: [sleep, "5"]}}
          readinessProbe:
            httpGet: {path: /health, port: http}
          startupProbe:
            httpGet: {path: /health, port: http}
            failureThreshold: 60
            periodSeconds: 5
          {{- end }}
          volumeMounts:
            - {name: data, mountPath: /var/lib/wa-orchestrator}
            - {name: secrets, mountPath: /etc/wa-orchestrator/secrets, readOnly: true}
            - {name: tmp, mountPath: /tmp}
      volumes:
        - name: data
          persistentVolumeClaim: {claimName: {{ $root.Values.clusterName }}-data}
        - name: secrets
          secret: {secretName: {{ include "wa.secret" $root }}, defaultMode: 0440}
        - name: tmp
          emptyDir: {sizeLimit: 256Mi}
{{- end }}
