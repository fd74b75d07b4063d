import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Usage: java Uploads.java URL CA_FILE BYTES COUNT [VERSION]
 *
 * <p>POSTs a body COUNT times, one after the other, with VERSION of HTTP (HTTP_1_1 unless given). Prints how often each status came
 * as JSON.
 */
public class Uploads {
  public static void main(String[] args) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (FileInputStream pem = new FileInputStream(args[1])) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    HttpClient.Version version = HttpClient.Version.valueOf(args.length > 4 ? args[4] : "HTTP_1_1");
    HttpClient client = HttpClient.newBuilder().sslContext(context).version(version).build();
    byte[] body = new byte[Integer.parseInt(args[2])];
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(args[0])).POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
    Map<String, Integer> statuses = new TreeMap<>();
    for (int i = 0; i < Integer.parseInt(args[3]); i++) {
      String status;
      try {
        status = String.valueOf(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
      } catch (java.io.IOException error) {
        status = String.valueOf(error.getMessage()).replaceAll("[\\\\\"]", "'");
      }
      statuses.merge(status, 1, Integer::sum);
    }
    System.out.println(
        statuses.entrySet().stream()
            .map(one -> "\"" + one.getKey() + "\":" + one.getValue())
            .collect(Collectors.joining(",", "{", "}")));
  }
}
