# Usage: ruby uploads.rb URL CA_FILE BYTES COUNT
# POSTs a body COUNT times, one after the other, on one connection of Net::HTTP. Prints how often each status came as JSON.

require 'json'
require 'net/http'

url, ca, size, count = ARGV
uri = URI(url)
statuses = Hash.new(0)
http = Net::HTTP.new(uri.host, uri.port)
http.use_ssl = true
http.ca_file = ca
http.max_retries = 0
http.start do
  count.to_i.times do
    request = Net::HTTP::Post.new(uri, 'Content-Type' => 'application/octet-stream')
    request.body = "\0" * size.to_i
    begin
      statuses[http.request(request).code] += 1
    rescue StandardError => error
      statuses[error.message] += 1
      http.finish if http.started?
      http.start
    end
  end
end
puts JSON.generate(statuses)
