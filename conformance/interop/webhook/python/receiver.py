# pip install standardwebhooks
import http.server, os
from standardwebhooks import Webhook, WebhookVerificationError
webhook = Webhook(os.environ["SIGNING_KEY"])
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers["content-length"])
        body, status = self.rfile.read(size), 204
        try: print(webhook.verify(body, self.headers))
        except WebhookVerificationError: status = 401
        self.send_response(status)
        self.end_headers()
port = int(os.environ.get("PORT", 3000))
http.server.HTTPServer(("", port), Hook).serve_forever()
